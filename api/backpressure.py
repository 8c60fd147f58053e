"""How many jobs may wait: what is beyond is refused before it costs anything. docs/backpressure.md tells why so."""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Self
from uuid import UUID

from api.problems import ProblemError
from jobstore.job import Job, JobState, NewJob
from jobstore.protocol import Backlog, JobStore
from safelight.config import LimitSettings
from safelight.telemetry import get_logger
from safelight.telemetry.metrics import SUBMITS_REFUSED

_log = get_logger(__name__)

_SHORTEST_S = 1.0
_SHARE = 20  # a refresh of t seconds is followed by a pause of 20 t: counting takes at most a 20th of one connection
_LIMIT_S = 10.0
_RETRY_AFTER_S = 30  # where nothing tells how fast the queue drains
_LONGEST_RETRY_AFTER_S = 120  # clients give up when they are told a longer time
_WAITING = (JobState.QUEUED, JobState.SCHEDULED)


class Room:
    """A submit's place in the queue, held while it is written. ``took`` tells what became of it."""

    def __init__(self) -> None:
        self.waits = False

    def took(self, job: Job) -> None:
        """The submit made ``job``: it takes a place if it waits, be it for another job's render."""
        self.waits = job.state in _WAITING


class Backpressure:
    """Counts what waits: a snapshot of the store's backlog, and this process's own submits since it was taken.

    For one event loop. Other processes' submits are seen at the next snapshot, so that together they may exceed a
    limit by what they accept in that time.
    """

    def __init__(self, store: JobStore, limits: LimitSettings, clock: Callable[[], float] = time.monotonic) -> None:
        """Knows of no job before the first ``refresh``. ``clock`` counts seconds."""
        self._store = store
        self._limits = limits
        self._clock = clock
        self._backlog = Backlog(lanes={}, keys={})
        self._seen = _Waiting()  # what the backlog counts
        self._earlier = _Waiting()  # queued since the snapshot, before the next one was begun
        self._own = _Waiting()  # queued since then: the next one may or may not have seen them
        self._under_way = _Waiting()
        self._due = -math.inf
        self._refreshing: asyncio.Task[None] | None = None

    @contextmanager
    def room(self, new: NewJob) -> Iterator[Room]:
        """Hold a place for ``new`` while it is submitted, and keep it if ``took`` says so."""
        room = Room()
        self._under_way.add(new, 1)
        try:
            yield room
        finally:
            self._under_way.add(new, -1)
            if room.waits:
                self._own.add(new, 1)

    async def is_full(self, new: NewJob) -> bool:
        """True when there is no room for ``new``. Only what an old snapshot says is asked of the store again."""
        if not self._reached(new):
            self.nudge()
            return False
        if self._clock() >= self._due:
            await asyncio.shield(self._refreshing or self._begin())
        return bool(self._reached(new))

    def refusal(self, new: NewJob) -> ProblemError:
        """What to answer when it is full: which limit is reached, and when to come again."""
        limit, most, excess = self._reached(new) or ("max_queued", self._limits.max_queued, 1)
        SUBMITS_REFUSED.labels(limit).inc()
        whose = {
            "max_queued": "",
            "max_queued_per_lane": f" in the lane {new.lane}",
            "max_queued_per_key": " for this API key" if new.key_id else " for clients without an API key",
        }[limit]
        after = self._retry_after(new.lane if limit != "max_queued" else None, excess)
        detail = f"{most} jobs wait{whose}, and no more are taken ({limit}); try again in {after} seconds"
        headers = {"Retry-After": str(after), "x-should-retry": "true"}
        return ProblemError(429, "queue_full", detail, headers=headers)

    def is_paused(self, lane: str) -> bool:
        """True when nothing of the lane is started for now, as far as the latest snapshot tells."""
        self.nudge()
        known = self._backlog.lanes.get(lane)
        return known is not None and known.paused_at is not None

    def nudge(self) -> None:
        """Have a new snapshot taken beside, if the one at hand is old. Returns at once."""
        if self._refreshing is None and self._clock() >= self._due:
            self._begin()

    async def refresh(self) -> None:
        """Wait for a snapshot begun from now on. One that can't be taken leaves the old one; the log tells."""
        if self._refreshing is not None:
            await asyncio.shield(self._refreshing)
        await asyncio.shield(self._refreshing or self._begin())

    async def close(self) -> None:
        """End a snapshot that is under way."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            with suppress(asyncio.CancelledError):
                await self._refreshing

    def _begin(self) -> asyncio.Task[None]:
        self._refreshing = asyncio.create_task(self._take(), name="backlog-snapshot")
        self._refreshing.add_done_callback(self._ended)
        return self._refreshing

    def _ended(self, _task: asyncio.Task[None]) -> None:
        self._refreshing = None

    async def _take(self) -> None:
        begun = self._clock()
        self._earlier.merge(self._own)
        self._own = _Waiting()
        try:
            async with asyncio.timeout(_LIMIT_S):
                self._backlog = await self._store.backlog()
            self._seen = _Waiting.of(self._backlog)
            self._earlier = _Waiting()
        except Exception as error:  # the driver's own errors differ by store; what is known must do
            _log.warning("backlog not counted", action="backpressure.failed", error=type(error).__name__)
        now = self._clock()
        self._due = now + max(_SHORTEST_S, _SHARE * (now - begun))

    def _reached(self, new: NewJob) -> tuple[str, int, int] | None:
        """The limit that is reached, what it is, and how many jobs must start before there is room."""
        limits, lane, key = self._limits, new.lane, new.key_id
        # Every submit asks: sums are kept, and nothing is put together before a limit is reached.
        counted = (self._seen, self._earlier, self._own, self._under_way)
        total = in_lane = of_key = 0
        for waiting in counted:
            total += waiting.total
            in_lane += waiting.lanes.get(lane, 0)
            of_key += waiting.keys.get(key, 0)
        if total >= limits.max_queued:
            return "max_queued", limits.max_queued, total - limits.max_queued + 1
        if in_lane >= limits.max_queued_per_lane:
            return "max_queued_per_lane", limits.max_queued_per_lane, in_lane - limits.max_queued_per_lane + 1
        if of_key >= limits.max_queued_per_key:
            return "max_queued_per_key", limits.max_queued_per_key, of_key - limits.max_queued_per_key + 1
        return None

    def _retry_after(self, lane: str | None, excess: int) -> int:
        """Whole seconds until ``excess`` jobs of the lane (None: of all) were started, at the speed of the snapshot."""
        lanes = [known for name, known in self._backlog.lanes.items() if lane in (None, name)]
        starts_a_second = sum(known.queued / known.drain_s for known in lanes if known.drain_s and not known.paused_at)
        if not starts_a_second:
            return _RETRY_AFTER_S
        return min(_LONGEST_RETRY_AFTER_S, max(1, math.ceil(excess / starts_a_second)))


class _Waiting:
    """Jobs counted by lane and by API key, and together."""

    def __init__(self) -> None:
        self.total = 0
        self.lanes: defaultdict[str, int] = defaultdict(int)
        self.keys: defaultdict[UUID | None, int] = defaultdict(int)

    @classmethod
    def of(cls, backlog: Backlog) -> Self:
        """What a snapshot counts."""
        found = cls()
        found.lanes.update((name, lane.queued + lane.scheduled) for name, lane in backlog.lanes.items())
        found.keys.update(backlog.keys)
        found.total = sum(found.lanes.values())
        return found

    def add(self, new: NewJob, count: int) -> None:
        self.total += count
        self.lanes[new.lane] += count
        self.keys[new.key_id] += count

    def merge(self, other: _Waiting) -> None:
        self.total += other.total
        for lane, count in other.lanes.items():
            self.lanes[lane] += count
        for key, count in other.keys.items():
            self.keys[key] += count
