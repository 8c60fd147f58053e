"""The leases that this process holds, and the beats that keep them.

One beat speaks for all leases of the process. It brings back which jobs are to be canceled, which leases have passed
to another job, and, by what it leaves out, which are lost. A process whose engine is dead or hung must not beat, or
its jobs would be held for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from actors.engine import Handle
from actors.paces import Paces
from actors.renderer import Renderer
from actors.reporting import Reporter
from jobstore.operating.jobs import MATES_KEPT
from jobstore.operating.workers import WorkerReport
from jobstore.protocol import Beat, HeldLease, JobStore, Lease, Worker
from safelight.config import WorkerSettings
from safelight.telemetry import get_logger
from safelight.telemetry.metrics import LEASES_LOST, SLOTS_BUSY, WORKER_BEAT

_log = get_logger(__name__)


@dataclass(slots=True, eq=False)
class HeldJob:
    """A claimed job and what the beats said of it.

    ``job_id`` is whose pictures the lease stands for now. ``settling`` is set while the end is being written, when
    the store may have forgotten the token because the write went through; ``uncertain`` once a write gave no answer.
    ``mates`` are jobs of the same batch key, a few of them at most, that were held meanwhile.
    """

    lease: Lease
    claimed_at: float
    job_id: UUID = field(init=False)
    lost: bool = False
    cancel_requested: bool = False
    handing_back: bool = False
    settling: bool = False
    uncertain: bool = False
    mates: dict[UUID, None] = field(default_factory=dict)
    _unwanted_at: float | None = None
    _handle: Handle | None = None

    def __post_init__(self) -> None:
        """The lease begins with the job that was claimed."""
        self.job_id = self.lease.job.id

    @property
    def unwanted(self) -> bool:
        """True when there is no use in rendering on."""
        return self.lost or self.cancel_requested or self.handing_back

    @property
    def unwanted_for_s(self) -> float:
        """Seconds since the render became useless; 0 while it is wanted."""
        return 0.0 if self._unwanted_at is None else time.monotonic() - self._unwanted_at

    def meet(self, other: HeldJob) -> None:
        """Note that both are held at once, where their steps may be shared."""
        if self.lease.job.batch_key == other.lease.job.batch_key:
            for one, mate in ((self, other), (other, self)):
                if len(one.mates) < MATES_KEPT:
                    one.mates[mate.job_id] = None

    def attach(self, handle: Handle) -> None:
        """Tie the job to its render; one that is unwanted by now is canceled at once."""
        self._handle = handle
        self._cancel_if_unwanted()

    def lose(self) -> None:
        """The store no longer knows the token: whatever is rendered under it is to be thrown away."""
        if not self.lost:
            LEASES_LOST.inc()
            _log.warning("lease lost", action="leases.lost", job_id=str(self.job_id))
        self.lost = True
        self._cancel_if_unwanted()

    def hand_back(self) -> None:
        """Stop the render, because the process stops."""
        self.handing_back = True
        self._cancel_if_unwanted()

    def hear(self, news: HeldLease) -> None:
        """Take in what a beat brought back."""
        self.job_id = news.job_id
        self.cancel_requested = news.cancel_requested
        self._cancel_if_unwanted()

    def _cancel_if_unwanted(self) -> None:
        if not self.unwanted:
            return
        if self._unwanted_at is None:
            self._unwanted_at = time.monotonic()
        if self._handle is not None:  # only whoever hands back wants to go on elsewhere
            self._handle.cancel(keep=self.handing_back and not (self.lost or self.cancel_requested))


class Leases:
    """The process's leases. Belongs to the event loop that its store belongs to."""

    def __init__(
        self,
        store: JobStore,
        worker: Worker,
        engine: Renderer,
        settings: WorkerSettings,
        paces: Paces,
        reporter: Reporter | None = None,
        on_drain: Callable[[bool], None] = lambda _asked: None,
    ) -> None:
        """``reporter`` gives what each beat tells of the worker; ``on_drain`` hears when it is to drain, or no more."""
        self._store = store
        self._paces = paces
        self._worker = worker
        self._engine = engine
        self._settings = settings
        self._reporter = reporter
        self._on_drain = on_drain
        self._drain_asked = False
        self._outgrown = False
        self.drained = False
        self._held: dict[int, HeldJob] = {}
        self._orphans: dict[int, float] = {}
        self._last_beat = time.monotonic()
        self._silent = False
        self._handing_back = False
        self._ending = asyncio.Event()

    def hold(self, lease: Lease, claimed_at: float) -> HeldJob:
        """Take a lease in. ``claimed_at`` is when the claim was sent (``time.monotonic()``); it counts as a beat."""
        held = HeldJob(lease, claimed_at)
        for other in self._held.values():
            held.meet(other)
        self._held[lease.token] = held
        self._last_beat = max(self._last_beat, claimed_at)
        SLOTS_BUSY.set(len(self._held))
        if self._handing_back:
            held.hand_back()
        return held

    def drop(self, held: HeldJob) -> None:
        """Let a lease go: it is settled, or lost."""
        self._held.pop(held.lease.token, None)
        SLOTS_BUSY.set(len(self._held))

    def hand_back_all(self) -> None:
        """Stop all renders, those of claims still under way too, because the process stops.

        With a dead or hung engine nothing is handed back: one of these jobs may have done that to it, and is to count a
        rescue for it.
        """
        self._handing_back = True
        for held in self.held:
            if self._engine.healthy:
                held.hand_back()
            else:
                held.lose()

    @property
    def held(self) -> tuple[HeldJob, ...]:
        """All leases held."""
        return tuple(self._held.values())

    @property
    def overdue(self) -> bool:
        """True when the last beat that arrived is so old that every lease must be taken as lost."""
        return time.monotonic() - self._last_beat > self._settings.lease_s

    async def run(self) -> None:
        """Beat until told to end."""
        while not self._ending.is_set():
            await self.beat()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), self._settings.beat_s)

    def end(self) -> None:
        """Let ``run`` end after the beat that is under way.

        It can't be cut off: what was sent goes on in the store, and would make a worker known that has left meanwhile.
        """
        self._ending.set()

    async def beat(self) -> None:
        """Beat once, unless the engine can't be trusted, and act on what comes back."""
        if self._silenced():
            self._lose_all_if_overdue()
            return
        asked_at = time.monotonic()
        asked_for = self.held
        paces = self._paces.read()
        try:
            async with asyncio.timeout(self._settings.lease_s):
                answer = await self._store.beat(self._worker, paces, await self._report())
        except Exception as error:  # the driver's errors differ by store, and all mean the same here
            _log.warning("beat failed", action="leases.beat_failed", error=type(error).__name__)
            self._lose_all_if_overdue()
            self.drained = self._outgrown and not self._held  # no beat may ever succeed again on such a schema
            return
        self._last_beat = max(self._last_beat, asked_at)
        WORKER_BEAT.labels(self._worker.device).set_to_current_time()
        self._paces.forget(paces)
        self._compare(asked_for, {news.token: news for news in answer.held})
        self._hear_drain(answer)
        await self._hand_back_orphans(answer.held)

    def outgrow(self, outgrown: bool) -> None:
        """Drain, as the schema has no room for this program any more; or go on, where it has again."""
        self._outgrown = outgrown
        if outgrown and not self._drain_asked:
            self._drain_asked = True
            self._on_drain(True)

    async def _report(self) -> WorkerReport | None:
        """What the worker tells of itself; the driver of a device is asked beside the event loop."""
        reporter, held = self._reporter, len(self._held)
        return None if reporter is None else await asyncio.to_thread(reporter.report, held)

    def _hear_drain(self, answer: Beat) -> None:
        """Hold off claims where that is asked, and note when nothing is held any more: then no claim is under way."""
        drain = answer.drain or self._outgrown
        if drain is not self._drain_asked:
            self._drain_asked = drain
            action = "leases.drain_asked" if drain else "leases.drain_over"
            _log.info("claims end" if drain else "claims go on", action=action)
            self._on_drain(drain)
        drained = drain and not answer.held and not self._held
        if drained and not self.drained:
            _log.info("the worker is drained", action="leases.drained")
        self.drained = drained

    def _compare(self, asked_for: tuple[HeldJob, ...], answer: dict[int, HeldLease]) -> None:
        """Only what was held before the beat was sent can be missed in its answer."""
        for held in asked_for:
            news = answer.get(held.lease.token)
            if news is not None:
                held.hear(news)
            elif held.lease.token in self._held and not held.settling:
                held.lose()

    async def _hand_back_orphans(self, answer: tuple[HeldLease, ...]) -> None:
        """Release leases that the store ascribes to this process and that nobody here works on.

        They come from claims whose answer was lost on the way, and would otherwise be kept alive by every beat.
        A claim under way looks the same at first, so they must have been seen for a lease's length.
        """
        now = time.monotonic()
        self._orphans = {
            news.token: self._orphans.get(news.token, now) for news in answer if news.token not in self._held
        }
        for token, seen_at in list(self._orphans.items()):
            if now - seen_at > self._settings.lease_s:
                await self._release(token)

    async def _release(self, token: int) -> None:
        try:
            await self._store.release(token)
        except Exception as error:  # the next beat shows it again
            _log.warning("orphaned lease not handed back", action="leases.release_failed", error=type(error).__name__)
        else:
            _log.warning("orphaned lease handed back", action="leases.orphan_released")

    def _silenced(self) -> bool:
        silent = not self._engine.healthy
        if silent and not self._silent:
            _log.critical("engine dead or hung, beats stop", action="leases.engine_unhealthy")
        self._silent = silent
        return silent

    def _lose_all_if_overdue(self) -> None:
        if self.overdue:
            for held in self.held:
                held.lose()
