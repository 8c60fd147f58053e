"""One reader of the store's events a process, and a bounded inbox for every stream."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

from jobstore.live import Message, Preview, Progress
from jobstore.protocol import JobStore
from safelight.telemetry import get_logger
from safelight.telemetry.metrics import STREAMS_OPEN

_log = get_logger(__name__)

_INBOX = 256
_PAGE = 1000
_SEATS_S = 5.0  # seats are held for streams that are about to begin; some never do, for their client has left
_OVERLAP = 200  # sequence numbers of different jobs may become visible out of order


class Mail(NamedTuple):
    """What came in since the last look: progress in order, previews, and whether the job has new durable events."""

    progress: tuple[Progress, ...]
    previews: tuple[Preview, ...]
    changed: bool
    overflowed: bool


class Subscription:
    """One stream's inbox: progress within a bound, each image's latest preview, whether there are durable events."""

    def __init__(self, job_ids: frozenset[UUID]) -> None:
        """An empty inbox for the events of ``job_ids`` (the job's own, and its leader's)."""
        self.job_ids = job_ids
        self._progress: deque[Progress] = deque()
        self._previews: dict[int, Preview] = {}
        self._changed = False
        self._overflowed = False
        self._wake = asyncio.Event()

    def offer(self, message: Message) -> None:
        """Queue progress; when there is no room, all that is queued is dropped and the reader told so.

        A preview takes the place of an earlier one of the same image.
        """
        if isinstance(message, Preview):
            self._previews[message.index] = message
        else:
            self._queue(message)
        self._wake.set()

    def _queue(self, progress: Progress) -> None:
        if len(self._progress) >= _INBOX:
            self._progress.clear()
            self._overflowed = True
        self._progress.append(progress)

    def touch(self) -> None:
        """Say that the job has new durable events."""
        self._changed = True
        self._wake.set()

    def wake(self) -> None:
        """Let the reader look around."""
        self._wake.set()

    async def wait(self, limit_s: float) -> bool:
        """True as soon as something came in, False after ``limit_s`` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._wake.wait()
                return True
        return False

    def drain(self) -> Mail:
        """Take everything out."""
        mail = Mail(tuple(self._progress), tuple(self._previews.values()), self._changed, self._overflowed)
        self._progress.clear()
        self._previews.clear()
        self._changed = self._overflowed = False
        self._wake.clear()
        return mail


class Seats:
    """Room that is held for streams which are about to begin: each takes one."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.until = time.monotonic() + _SEATS_S


class Tail:
    """Polls the store's events while somebody listens, and hands them to the subscriptions they concern."""

    def __init__(self, store: JobStore, max_streams: int, poll_s: float = 0.05) -> None:
        """``poll_s`` seconds pass between two looks."""
        self._store = store
        self._max_streams = max_streams
        self._poll_s = poll_s
        self._subscriptions: set[Subscription] = set()
        self._seats: set[Seats] = set()
        self._needed = asyncio.Event()
        self._reading = asyncio.Event()
        self._seen: set[int] = set()
        self._on_close: list[Callable[[], None]] = []
        self.closed = False

    @property
    def listeners(self) -> int:
        """Open streams."""
        return len(self._subscriptions)

    @property
    def full(self) -> bool:
        """True when no further stream is taken in."""
        return not self._takes(1)

    def reserve(self, count: int) -> Seats | None:
        """Hold room for so many further streams, which begin a moment after they were let in; None without room."""
        if not self._takes(count):
            return None
        seats = Seats(count)
        self._seats.add(seats)
        return seats

    def _takes(self, count: int) -> bool:
        now = time.monotonic()
        self._seats = {seats for seats in self._seats if seats.left and seats.until > now}
        held = sum(seats.left for seats in self._seats)
        return not self.closed and len(self._subscriptions) + held + count <= self._max_streams

    def subscribe(self, job_ids: frozenset[UUID], seats: Seats | None = None) -> Subscription:
        """Listen to these jobs until ``unsubscribe``, on one of the ``seats`` that were held for it."""
        if seats is not None and seats.left:
            seats.left -= 1
        subscription = Subscription(job_ids)
        self._subscriptions.add(subscription)
        self._needed.set()
        STREAMS_OPEN.inc()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Forget the subscription. Not a coroutine: a canceled stream could await nothing any more."""
        if subscription in self._subscriptions:
            self._subscriptions.discard(subscription)
            STREAMS_OPEN.dec()
        if not self._subscriptions:
            self._needed.clear()
            self._reading.clear()

    def listens(self, job_id: UUID) -> bool:
        """True while a stream, or an answer held back, waits for this job."""
        return any(job_id in subscription.job_ids for subscription in self._subscriptions)

    async def reading(self, limit_s: float = 2.0) -> None:
        """Wait until events from now on reach the subscriptions (or ``limit_s`` passed: then heartbeats catch up)."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._reading.wait()

    def note(self, message: Message) -> None:
        """Hand progress or a preview to those who listen to its job."""
        for subscription in self._subscriptions:
            if message.job_id in subscription.job_ids:
                subscription.offer(message)

    def on_close(self, call: Callable[[], None]) -> None:
        """Call ``call``, too, when the streams are ended: the process is about to leave."""
        self._on_close.append(call)

    def close(self) -> None:
        """End all streams soon; no new one is taken in."""
        self.closed = True
        for subscription in self._subscriptions:
            subscription.wake()
        for call in self._on_close:
            call()

    async def run(self) -> None:
        """Read until canceled; an unreachable store is asked again after a second."""
        cursor: int | None = None
        while True:
            if not self._needed.is_set():
                cursor = None
                await self._needed.wait()
            try:
                if cursor is None:
                    cursor = await self._store.last_event()
                if self._needed.is_set():  # also for who came between two looks, when the one before had left
                    self._reading.set()
                cursor = await self._read(cursor)
            except Exception as error:  # the driver's own errors differ by store; streams outlive them all
                _log.warning("events not read", action="tail.read_failed", error=type(error).__name__)
                await asyncio.sleep(1.0)
            await asyncio.sleep(self._poll_s)

    async def _read(self, cursor: int) -> int:
        """Touch whom new events concern; the overlap is read again for what became visible late."""
        after = max(0, cursor - _OVERLAP)
        self._seen = {seq for seq in self._seen if seq > after}
        while True:
            events = await self._store.events_since(after, _PAGE)
            fresh = {event.job_id for event in events if event.seq not in self._seen}
            self._seen.update(event.seq for event in events)
            for subscription in self._subscriptions:
                if fresh & subscription.job_ids:
                    subscription.touch()
            after = max([after, *(event.seq for event in events)])
            if len(events) < _PAGE:
                return max(cursor, after)
