"""When a delivery is tried again: soon at first, ever more seldom later, for about three days."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_HOUR_S = 3600.0
PAUSES_S = (
    5.0, 30.0, 120.0, 600.0, 1800.0, _HOUR_S, 2 * _HOUR_S, 4 * _HOUR_S, 8 * _HOUR_S, 12 * _HOUR_S, 16 * _HOUR_S,
    24 * _HOUR_S,
)  # fmt: skip
"""Seconds between two tries: thirteen tries in 68 hours, and up to a fifth longer."""

_JITTER = 0.2
_LONGEST_WISH_S = 24 * _HOUR_S
_RANDOM = random.SystemRandom()


def pause_s(tries: int, wished_s: float = 0.0, chance: float | None = None) -> float | None:
    """Seconds until the next try after ``tries`` of them; None when it is to be given up.

    ``wished_s`` is what the receiver asked for; ``chance`` (0 to 1, random by default) spreads those that failed
    together.
    """
    if tries > len(PAUSES_S):
        return None
    chance = _RANDOM.random() if chance is None else chance
    return max(PAUSES_S[tries - 1] * (1 + _JITTER * chance), min(wished_s, _LONGEST_WISH_S))


def wish_of(retry_after: str, now: datetime | None = None) -> float:
    """The seconds that a ``Retry-After`` (RFC 9110, section 10.2.3) asks for; 0 for what can't be read."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return 0.0
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - (now or datetime.now(UTC))).total_seconds())
