"""Times on the command line."""

from __future__ import annotations

from datetime import UTC, datetime

from safelight.cli.exits import RefusedError
from safelight.cli.spans import is_span, span_of


def time_of(option: str, text: str | None) -> str | None:
    """The value of an option as RFC 3339. Raises RefusedError on one without a time zone."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise RefusedError(f"{option} {text!r} is not a time like 2030-01-31T12:00:00Z") from error
    if at.tzinfo is None:
        raise RefusedError(f"{option} {text!r} has no time zone; append Z or an offset like +02:00")
    return at.isoformat()


def past_of(option: str, text: str | None) -> str | None:
    """The same for what lies behind: also a span like 2h, so long ago, and a time without a zone, which is UTC's.

    Raises RefusedError.
    """
    if text is None:
        return None
    try:
        if is_span(text):
            return (datetime.now(UTC) - span_of(option, text)).isoformat()
        at = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise RefusedError(
            f"{option} {text!r} is no time",
            "say how long ago, like 2h, 30m or 1d, or when, like 2030-01-31T12:00 (UTC) or 2030-01-31T12:00:00+02:00",
        ) from error
    return at.isoformat() if at.tzinfo is not None else at.replace(tzinfo=UTC).isoformat()
