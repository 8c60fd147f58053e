"""Times as browsers' forms have them: without a zone, and meant in UTC, which is what the pages show."""

from __future__ import annotations

from datetime import UTC, datetime


def with_zone(text: str | None) -> str | None:
    """What a form's field for a time sent, as the API reads it; what is no time is left as it is. Empty: None."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return text  # refused in words by who reads it
    return text if at.tzinfo is not None else f"{at.isoformat()}Z"


def local_time(at: datetime | None) -> str:
    """A time as such a field takes it, to the second; empty for none."""
    return "" if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
