"""Ties what lives on the actors' event loop to the life of the Dramatiq worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from dramatiq import Broker, Middleware
from dramatiq import Worker as DramatiqWorker
from dramatiq.asyncio import get_event_loop_thread
from dramatiq.middleware import MiddlewareError

from actors.leases import Leases
from actors.parts import Parts
from actors.patrol import Patrol
from actors.render import RenderActor
from actors.reporting import Reporter
from actors.schema import SchemaWatch
from actors.webhooks.courier import Courier
from jobstore.janitor import Janitor
from jobstore.sweeper import Sweeper
from safelight.telemetry import get_logger

_log = get_logger(__name__)


class WorkerStartError(MiddlewareError):
    """The worker can't start; the cause says why."""


class Lifespan(Middleware):
    """Opens the store before the first bell is taken, beats and sweeps, and closes when the last is answered.

    Its hooks rely on AsyncIO standing before it in the broker's middleware: then the event loop is there.
    """

    def __init__(self, parts: Parts, *, embedded: bool, on_drain: Callable[[bool], None] = lambda _asked: None) -> None:
        """``on_drain`` hears, on the event loop, when an operator lets the worker drain, or go on."""
        self._parts = parts
        self._embedded = embedded
        self._on_drain = on_drain
        reporter = Reporter(parts.engine, parts.settings.worker.device, parts.settings.slots)
        self._leases = Leases(
            parts.store, parts.worker, parts.engine, parts.settings.worker, parts.paces, reporter, self._hold_off
        )
        self._courier = Courier(parts.store, parts.settings.webhooks)
        self._actor = RenderActor(parts, self._leases, self._courier.nudge)
        self._patrol = Patrol(self._actor, parts.settings.worker)
        self._schema = SchemaWatch(parts.store, self._leases, parts.settings.worker.beat_s)
        self._sweeper = Sweeper(parts.store, parts.bell, parts.settings.worker)
        self._janitor = Janitor(parts.store, parts.outputs, parts.settings.retention)
        self._tasks: list[asyncio.Task[None]] = []
        self._beating: asyncio.Task[None] | None = None

    @property
    def drained(self) -> bool:
        """True while the worker is asked to drain and holds nothing any more."""
        return self._leases.drained

    def _hold_off(self, asked: bool) -> None:
        self._actor.hold_off(asked)
        self._on_drain(asked)

    async def answer(self, lane: str) -> None:
        """Answer one bell."""
        await self._actor.answer(lane)

    async def answer_webhooks(self, _lane: str) -> None:
        """Answer a bell for webhooks. Returns at once: no slot waits for a receiver."""
        self._courier.nudge()

    def before_worker_boot(self, _broker: Broker, _worker: DramatiqWorker) -> None:
        """Open the store and start the tasks."""
        try:
            _run(self._open())
        except Exception as error:
            raise WorkerStartError(f"the worker can't start: {error}") from error

    def after_worker_shutdown(self, _broker: Broker, _worker: DramatiqWorker) -> None:
        """End the tasks, leave and close the store."""
        _run(self._close())

    def drain(self, grace_s: float) -> None:
        """Claim no more; hand back what isn't done after ``grace_s`` seconds. Returns at once."""
        _run(self._drain(grace_s))

    async def _open(self) -> None:
        await self._parts.store.open()
        if self._embedded:
            await self._sweeper.sweep_at_boot()
        await self._leases.beat()
        self._beating = asyncio.create_task(self._leases.run())
        beside = [self._sweeper.run(), self._janitor.run(), self._patrol.run(), self._schema.run()]
        if self._parts.settings.webhooks.deliver:
            beside.append(self._courier.run())
        self._tasks = [self._beating, *(asyncio.create_task(work) for work in beside)]

    async def _drain(self, grace_s: float) -> None:
        self._actor.drain()
        self._tasks.append(asyncio.create_task(self._hand_back_after(grace_s)))

    async def _hand_back_after(self, grace_s: float) -> None:
        await asyncio.sleep(grace_s)
        self._leases.hand_back_all()

    async def _close(self) -> None:
        await self._patrol.ended()
        self._leases.end()
        if self._beating is not None:
            await asyncio.wait([self._beating], timeout=self._parts.settings.worker.lease_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._courier.close()
        try:
            if not self._leases.held:
                await self._parts.store.leave(self._parts.worker.id)
        except Exception as error:  # the store forgets silent workers by itself
            _log.warning("store not told of the stop", action="lifespan.leave_failed", error=type(error).__name__)
        await self._parts.providers.close()
        await self._parts.store.close()


def _run(work: Coroutine[Any, Any, None]) -> None:
    thread = get_event_loop_thread()
    if thread is None:
        work.close()
        raise RuntimeError("no event loop: the broker lacks Dramatiq's AsyncIO middleware")
    thread.run_coroutine(work)
