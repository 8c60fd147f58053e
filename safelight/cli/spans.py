"""Spans of time on the command line: 90m, 12h, 30d."""

from __future__ import annotations

import re
from datetime import timedelta

from safelight.cli.exits import RefusedError

_SPAN = re.compile(r"([0-9]{1,6})([smhdw])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def is_span(text: str) -> bool:
    """True for what is written as a span of time."""
    return _SPAN.fullmatch(text.strip()) is not None


def span_of(option: str, text: str) -> timedelta:
    """A span of time like 12h or 30d. Raises RefusedError."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise RefusedError(f"{option} {text!r} is not a span of time like 30s, 90m, 12h, 30d or 4w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
