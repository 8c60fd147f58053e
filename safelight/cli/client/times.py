"""Times on the command line."""

from __future__ import annotations

from datetime import datetime

from safelight.cli.exits import RefusedError


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
