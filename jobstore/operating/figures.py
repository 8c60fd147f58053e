"""How everything stands, in numbers of recent windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import Struct

from jobstore.job import CacheOutcome, JobState
from jobstore.quotas import midnight
from jobstore.rules.rows import trimmed

MINUTES = 60
LETTERS_COUNTED = 10_000
LETTERS_SINCE = timedelta(hours=24)


class Minute(Struct, frozen=True, kw_only=True):
    """How many jobs ended in the minute that begins at ``at``; ``failed`` counts the dead ones too."""

    at: datetime
    succeeded: int = 0
    failed: int = 0
    canceled: int = 0

    @property
    def finished(self) -> int:
        """All that ended."""
        return self.succeeded + self.failed + self.canceled


class Cost(Struct, frozen=True, kw_only=True):
    """What was charged, and the device time that it took, in one currency."""

    currency: str
    charged: Decimal
    gpu_seconds: Decimal


class Figures(Struct, frozen=True, kw_only=True):
    """Numbers of one moment, ``at``, by the store's clock.

    ``minutes`` are the last 60, oldest first, the one under way last. ``hits`` and ``joined`` are how many jobs of the
    last hour were answered without a render of their own, ``rendered`` how many were not. ``failed`` and ``dead`` are
    letters of the last 24 hours, each counted up to 10,000; ``letter_at`` is the end of the newest. ``since`` is
    midnight in the zone that was asked for, and ``costs`` what was charged from then on.
    """

    at: datetime
    minutes: tuple[Minute, ...]
    hits: int
    joined: int
    rendered: int
    failed: int
    dead: int
    letter_at: datetime | None
    since: datetime
    costs: tuple[Cost, ...]

    @property
    def success_rate(self) -> float | None:
        """The share of the last hour's ends, cancels aside, that had pictures; None without any."""
        succeeded, failed = (sum(getattr(one, name) for one in self.minutes) for name in ("succeeded", "failed"))
        return succeeded / (succeeded + failed) if succeeded + failed else None

    @property
    def cache_share(self) -> float | None:
        """The share of the last hour's pictures that needed no render of their own; None without any."""
        spared = self.hits + self.joined
        return spared / (spared + self.rendered) if spared + self.rendered else None


class Window(Struct, frozen=True, kw_only=True):
    """The instants from which figures are counted. ``hour`` is the first minute's beginning."""

    at: datetime
    hour: datetime
    letters: datetime
    day: datetime


def window_of(at: datetime, zone: str) -> Window:
    """What is counted at ``at``. Raises ZoneInfoNotFoundError."""
    place = ZoneInfo(zone)
    minute = at.replace(second=0, microsecond=0)
    return Window(
        at=at,
        hour=minute - timedelta(minutes=MINUTES - 1),
        letters=at - LETTERS_SINCE,
        day=midnight(at.astimezone(place), place),
    )


def figures_of(
    window: Window,
    ended: Sequence[dict[str, Any]],
    letters: dict[JobState, dict[str, Any]],
    spent: Sequence[dict[str, Any]],
) -> Figures:
    """Figures of rows: ``ended`` by minute, state and cache with their ``count``, ``letters`` by state with ``count``
    and ``newest_at``, ``spent`` by currency with its sums."""
    states: Counter[tuple[datetime, str]] = Counter()
    caches: Counter[str] = Counter()
    for row in ended:
        state = "failed" if row["state"] == JobState.DEAD else row["state"]
        states[row["at"], state] += row["count"]
        if state == JobState.SUCCEEDED:
            caches[row["cache"]] += row["count"]
    starts = [window.hour + timedelta(minutes=number) for number in range(MINUTES)]
    return Figures(
        at=window.at,
        minutes=tuple(
            Minute(at=at, **{name: states[at, name] for name in ("succeeded", "failed", "canceled")}) for at in starts
        ),
        hits=caches[CacheOutcome.HIT],
        joined=caches[CacheOutcome.JOINED],
        rendered=caches[CacheOutcome.MISS],
        failed=letters[JobState.FAILED]["count"],
        dead=letters[JobState.DEAD]["count"],
        letter_at=max((row["newest_at"] for row in letters.values() if row["newest_at"] is not None), default=None),
        since=window.day,
        costs=tuple(
            Cost(currency=row["currency"], charged=trimmed(row["charged"]), gpu_seconds=trimmed(row["gpu_seconds"]))
            for row in sorted(spent, key=lambda row: str(row["currency"]))
        ),
    )
