"""Days as a time zone counts them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

_DAY = timedelta(days=1)


def day_start(day: date, zone: str) -> datetime:
    """The first instant of a day: midnight, the earlier one where a clock change brings it twice, and the first
    instant after it where one leaves it out."""
    return datetime.combine(day, time(), ZoneInfo(zone)).astimezone(UTC)


def days_between(first: date, last: date) -> Iterator[date]:
    """The days from ``first`` to ``last``, both among them."""
    return (first + index * _DAY for index in range((last - first).days + 1))


def spans(first: date, last: date, zone: str) -> Iterator[tuple[date, datetime, datetime]]:
    """Each day with its first instant and that of the next."""
    for day in days_between(first, last):
        yield day, day_start(day, zone), day_start(day + _DAY, zone)
