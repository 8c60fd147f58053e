"""One reader of the store's events a process, and a bounded inbox for every stream."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

from api.seating import Seating, Seats
from jobstore.live import Message, Preview, Progress
from jobstore.protocol import JobStore
from safelight.telemetry import get_logger
from safelight.telemetry.metrics import STREAMS_OPEN

_log = get_logger(__name__)

_INBOX = 256
_PAGE = 1000
_OVERLAP = 200  # sequence numbers of different jobs may become visible out of order


class Mail(NamedTuple):
    """What came in since the last look: progress in order, previews, and whether the job has new durable events."""

    progress: tuple[Progress, ...]
    previews: tuple[Preview, ...]
    changed: bool
    overflowed: bool


class Subscription:
    """One stream's inbox: progress within a bound, each image's latest preview, whether there are durable events."""

    def __init__(self, job_ids: frozenset[UUID], seats: Seats | None = None) -> None:
        """An empty inbox for the events of ``job_ids`` (the job's own, and its leader's)."""
        self.job_ids = job_ids
        self.seats = seats
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


class Tail:
    """Polls the store's events while somebody listens, and hands them to the subscriptions they concern."""

    def __init__(self, store: JobStore, max_streams: int, poll_s: float = 0.05) -> None:
        """``poll_s`` seconds pass between two looks. As many answers may wait for a job as there are streams."""
        self._store = store
        self._streams = Seating(max_streams)
        self._answers = Seating(max_streams)
        self._poll_s = poll_s
        self._subscriptions: set[Subscription] = set()
        self._needed = asyncio.Event()
        self._reading = asyncio.Event()
        self._seen: set[int] = set()
        self._on_close: list[Callable[[], None]] = []
        self.closed = False

    @property
    def listeners(self) -> int:
        """Open inboxes: of streams, and of answers that wait."""
        return len(self._subscriptions)

    def reserve(self, owner: Hashable, jobs: int = 1) -> Seats | None:
        """Hold seats for a stream of so many jobs, which begins a moment after it was let in; None without."""
        return None if self.closed else self._streams.take(owner, jobs)

    def reserve_answer(self, owner: Hashable) -> Seats | None:
        """The same for an answer that waits for a job: streams take none of these."""
        return None if self.closed else self._answers.take(owner)

    def subscribe(self, job_ids: frozenset[UUID], seats: Seats | None = None) -> Subscription:
        """Listen to these jobs until ``unsubscribe``, on the ``seats`` that were held for it."""
        if seats is not None:
            seats.sit()
        subscription = Subscription(job_ids, seats)
        self._subscriptions.add(subscription)
        self._needed.set()
        STREAMS_OPEN.inc()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Forget the subscription. Not a coroutine: a canceled stream could await nothing any more."""
        if subscription in self._subscriptions:
            self._subscriptions.discard(subscription)
            STREAMS_OPEN.dec()
            if subscription.seats is not None:
                subscription.seats.rise()
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
