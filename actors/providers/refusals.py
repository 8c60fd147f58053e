"""What a provider's answer without pictures means: tried again, tried elsewhere, or the end."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from actors.providers.orders import (
    ProviderBusyError,
    ProviderError,
    ProviderFilteredError,
    ProviderRefusedError,
    ProviderUnreachableError,
)

LONGEST_PAUSE_S = 300.0
# A proxy that heard nothing from the provider (Cloudflare's have numbers of their own), or a provider that has a
# request with this key under way: it may render.
UNSURE = frozenset({408, 409, 502, 503, 504, 520, 521, 522, 523, 524})

_FILTERED = frozenset(
    {
        "content_policy_violation",
        "content_filter",
        "content_filtered",
        "moderation_blocked",
        "image_generation_user_error",
    }
)
_SPENT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_UNPAID = (401, 402, 403)
_MOST_CHARS = 300
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\u00a0-\ud7ff\ue000-\uffff]+")  # surrogates, too: no store takes them


def refusal(
    name: str, status: int, headers: Mapping[str, str], body: bytes, secrets: Iterable[str], *, promised: bool = False
) -> ProviderError:
    """The error of an answer of a provider (``name`` is the model that is asked of it).

    After a 202 pictures are ``promised``: an error that may pass doesn't say that there will be none.
    """
    code, message = _told(body)
    words = f"the provider of {name} answered {status}"
    if status not in _UNPAID and message:  # what it says of a key may show parts of it
        words = f"{words}: {_cleaned(message, secrets)}"
    if status == 400 and code in _FILTERED:
        return ProviderFilteredError(words)
    if final(headers) or code in _SPENT:
        return ProviderRefusedError(words)
    busy = status in (425, 429) or status >= 500
    if status in UNSURE or (promised and busy):
        return ProviderUnreachableError(words, pause_of(headers))
    if busy:
        return ProviderBusyError(words, pause_of(headers))
    return ProviderRefusedError(words)


def final(headers: Mapping[str, str]) -> bool:
    """Whether the provider itself says that asking again is of no use."""
    return headers.get("x-should-retry", "").lower() == "false"


def pause_of(headers: Mapping[str, str]) -> float | None:
    """How long the provider wants to be left alone, in seconds, within bounds; None where it doesn't say."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        seconds = _seconds(headers.get(name, ""))
        if seconds is not None:
            return min(max(seconds / unit, 0.0), LONGEST_PAUSE_S)
    return None


def _seconds(text: str) -> float | None:
    try:
        number = float(text)
        return number if math.isfinite(number) else None
    except ValueError:
        pass
    try:
        return (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):  # TypeError: without a time zone
        return None


def _told(body: bytes) -> tuple[str, str]:
    """Code and message of an error in OpenAI's form; empty where there is none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return "", ""
    error = found.get("error") if isinstance(found, dict) else None
    if not isinstance(error, dict):
        return "", ""
    code, kind, message = (error.get(key) for key in ("code", "type", "message"))
    chosen = code if isinstance(code, str) else kind if isinstance(kind, str) else ""
    return chosen, message if isinstance(message, str) else ""


def _cleaned(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "…")
    return _UNPRINTABLE.sub(" ", text)[:_MOST_CHARS]
