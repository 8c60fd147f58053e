"""A process that delivers webhooks and does nothing else: no lane, no device."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import dramatiq
from dramatiq import Broker, Middleware
from dramatiq.asyncio import get_event_loop_thread
from dramatiq.middleware import MiddlewareError

from actors.away import quieten_consumers
from actors.broker import actor_name, declare_lanes, queue_name
from actors.webhooks.courier import Courier
from jobstore.live import WEBHOOKS_BELL
from jobstore.protocol import JobStore
from safelight.config import Settings
from safelight.telemetry import get_logger

_log = get_logger(__name__)

_POLL_MS = 250
_STOP_MS = 10_000


class DeliveryStartError(MiddlewareError):
    """The process can't start; the cause says why."""


class DeliveryProcess:
    """Serves the bells for webhooks until it is stopped. The broker must be its own."""

    healthy = True

    def __init__(self, settings: Settings, make_store: Callable[[], JobStore], broker: Broker) -> None:
        """``make_store`` gives a store that isn't open yet: it is opened on the event loop of Dramatiq's actors."""
        self._settings = settings
        self._make_store = make_store
        self._broker = broker
        self._worker: dramatiq.Worker | None = None

    def start(self) -> None:
        """Open the store and serve. Raises BrokerSetupError, DeliveryStartError."""
        declare_lanes(self._broker, [WEBHOOKS_BELL])
        deliveries = _Deliveries(self._settings, self._make_store())
        self._broker.add_middleware(deliveries)
        queue = queue_name(WEBHOOKS_BELL)
        dramatiq.actor(actor_name=actor_name(WEBHOOKS_BELL), queue_name=queue, broker=self._broker)(deliveries.answer)
        self._broker.emit_after("process_boot")
        self._worker = dramatiq.Worker(self._broker, queues={queue}, worker_threads=1, worker_timeout=_POLL_MS)
        quieten_consumers([WEBHOOKS_BELL])
        try:
            self._worker.start()
        except BaseException:
            self._broker.emit_after("worker_shutdown", self._worker)
            raise
        _log.info("webhooks are delivered", action="webhooks.started")

    def stop(self, grace_s: float | None = None) -> None:  # noqa: ARG002 - the courier has a grace of its own
        """End what is under way, within seconds. May be called again."""
        if self._worker is not None:
            self._worker.stop(timeout=_STOP_MS)
            self._worker = None
            _log.info("webhooks are not delivered here any more", action="webhooks.stopped")


class _Deliveries(Middleware):
    """Opens the store before the first bell is taken, and closes it when the last is answered."""

    def __init__(self, settings: Settings, store: JobStore) -> None:
        self._store = store
        self._courier = Courier(store, settings.webhooks)
        self._task: asyncio.Task[None] | None = None

    async def answer(self, _lane: str) -> None:
        """Answer one bell."""
        self._courier.nudge()

    def before_worker_boot(self, _broker: Broker, _worker: dramatiq.Worker) -> None:
        """Open the store and begin."""
        try:
            _run(self._open())
        except Exception as error:
            raise DeliveryStartError(f"webhooks can't be delivered: {error}") from error

    def after_worker_shutdown(self, _broker: Broker, _worker: dramatiq.Worker) -> None:
        """End and close the store."""
        _run(self._close())

    async def _open(self) -> None:
        await self._store.open()
        self._task = asyncio.create_task(self._courier.run())

    async def _close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._courier.close()
        await self._store.close()


def _run(work: Coroutine[Any, Any, None]) -> None:
    thread = get_event_loop_thread()
    if thread is None:
        work.close()
        raise RuntimeError("no event loop: the broker lacks Dramatiq's AsyncIO middleware")
    thread.run_coroutine(work)
