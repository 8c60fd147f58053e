"""The worker process: one engine, as many Dramatiq threads as it has slots, and the tasks that keep its leases."""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Callable

import dramatiq
from dramatiq import Broker

from actors.away import quieten_consumers
from actors.broker import actor_name, declare_lanes, queue_name
from actors.engine import Engine
from actors.gate import OutputsGate
from actors.gauges import DeviceGauges
from actors.lifespan import Lifespan
from actors.observing import EngineMetrics
from actors.parts import Parts
from actors.previewing import Previewer
from actors.renderer import NoEngine, Renderer
from jobstore.live import WEBHOOKS_BELL, Bell, ProgressChannel
from jobstore.outputs import Outputs
from jobstore.protocol import JobStore, Worker
from safelight.config import Settings
from safelight.telemetry import get_logger

_log = get_logger(__name__)

_DEVICE_WAIT_S = 300.0
_SETTLE_S = 10.0
_POLL_MS = 250  # how soon Dramatiq's idle threads notice that they are to stop


class WorkerProcess:
    """Serves the lanes of the settings until it is stopped. At most one runs in an operating system process.

    ``make_store`` gives a store that isn't open yet: it is opened on the event loop that Dramatiq's actors run on.
    The broker must be this worker's own; bell and progress channel are started and stopped by whoever made them,
    and must outlive ``stop()``. ``embedded`` says that no other process works on the store: what an earlier one
    left behind is taken over at once. An ``engine`` that is passed in has been started, and is stopped, by whoever
    made it.
    """

    def __init__(
        self,
        settings: Settings,
        make_store: Callable[[], JobStore],
        outputs: Outputs,
        broker: Broker,
        bell: Bell,
        progress: ProgressChannel,
        *,
        embedded: bool = False,
        engine: Renderer | None = None,
    ) -> None:
        self._settings = settings
        self._make_store = make_store
        self._outputs = outputs
        self._broker = broker
        self._bell = bell
        self._progress = progress
        self._previews = Previewer(progress)
        self._embedded = embedded
        self._own_engine = engine is None
        self.engine: Renderer = engine or _engine_of(settings)
        self.id = uuid.uuid4()
        self._gauges: DeviceGauges | None = None
        self._lifespan: Lifespan | None = None
        self._worker: dramatiq.Worker | None = None
        self._stop_lock = threading.Lock()

    @property
    def _bells(self) -> tuple[str, ...]:
        """What is answered: bells of lanes, and those for webhooks."""
        return self._settings.worker.lanes + ((WEBHOOKS_BELL,) if self._settings.webhooks.deliver else ())

    @property
    def healthy(self) -> bool:
        """False once the engine is dead or hung: the process should then be replaced by a fresh one."""
        return self.engine.healthy

    @property
    def drained(self) -> bool:
        """True while an operator has asked it to drain and it holds no job any more."""
        return self._lifespan is not None and self._lifespan.drained

    def start(self) -> None:
        """Start the engine, open the store and serve. Returns once bells are answered; models load meanwhile.

        Raises ModelUnavailableError where the device can't be used, BrokerSetupError, and WorkerStartError when the
        store can't be opened.
        """
        lanes = self._settings.worker.lanes
        served = [name for name, model in self._settings.models.items() if model.lane in lanes]
        if self._own_engine:
            local = [name for name in served if self._settings.models[name].provider is None]
            self.engine.start(warm=local[:1])
        try:
            declare_lanes(self._broker, self._bells)
            device = self.engine.wait_ready(_DEVICE_WAIT_S)
            self._serve(device)
        except BaseException:
            self._stop_engine()
            raise
        self._gauges = DeviceGauges(self._settings.worker.device, device)
        self._gauges.start()
        _log.info("worker serves", action="worker.started", worker_id=str(self.id), lanes=lanes, models=served)

    def stop(self, grace_s: float | None = None) -> None:
        """Claim no more, finish what can be finished within ``grace_s`` seconds, hand back the rest, and leave.

        Returns when all is settled; may be called again, from any thread.
        """
        with self._stop_lock:
            if self._worker is None or self._lifespan is None:
                return
            grace = self._settings.worker.shutdown_grace_s if grace_s is None else grace_s
            self._lifespan.drain(grace)
            self._worker.stop(timeout=int(1000 * (grace + _SETTLE_S)))
            self._worker = None
            self._stop_engine()
            self._previews.close()
            if self._gauges is not None:
                self._gauges.stop()
            _log.info("worker stopped", action="worker.stopped", worker_id=str(self.id))

    def _stop_engine(self) -> None:
        if self._own_engine and not self.engine.stop(_SETTLE_S):
            _log.error("the engine does not stop", action="worker.engine_stuck", worker_id=str(self.id))

    def _serve(self, device: str) -> None:
        lanes = self._settings.worker.lanes
        parts = Parts(
            settings=self._settings,
            store=self._make_store(),
            outputs=self._outputs,
            engine=self.engine,
            bell=self._bell,
            progress=self._progress,
            previews=self._previews,
            gate=OutputsGate(self._outputs),
            worker=Worker(
                id=self.id,
                host=socket.gethostname(),
                pid=os.getpid(),
                device=device,
                lanes=lanes,
                lease_s=self._settings.worker.lease_s,
            ),
        )
        self._lifespan = Lifespan(parts, embedded=self._embedded, on_drain=self._hold_off)
        self._broker.add_middleware(self._lifespan)
        for lane in lanes:
            declare = dramatiq.actor(actor_name=actor_name(lane), queue_name=queue_name(lane), broker=self._broker)
            declare(self._lifespan.answer)
        if WEBHOOKS_BELL in self._bells:
            # Before those of lanes, for which a thread may wait long.
            declare = dramatiq.actor(
                actor_name=actor_name(WEBHOOKS_BELL),
                queue_name=queue_name(WEBHOOKS_BELL),
                broker=self._broker,
                priority=-1,
            )
            declare(self._lifespan.answer_webhooks)
        self._broker.emit_after("process_boot")
        self._worker = self._start_worker()

    def _hold_off(self, asked: bool) -> None:
        """Let threads take no bells while the worker drains: others are to hear them."""
        for thread in [] if self._worker is None else self._worker.workers:
            if asked:
                thread.pause()
            else:
                thread.resume()

    def _start_worker(self) -> dramatiq.Worker:
        slots = self._settings.slots
        worker = dramatiq.Worker(
            self._broker,
            queues={queue_name(lane) for lane in self._bells},
            worker_threads=slots + 1,  # one for bells that no job comes of
            worker_timeout=_POLL_MS,
        )
        quieten_consumers(self._bells)
        worker.queue_prefetch = slots  # a bell taken is a job held; more would only be hoarded
        try:
            worker.start()
        except BaseException:
            self._broker.emit_after("worker_shutdown", worker)  # ends the event loop, and closes what was opened
            raise
        return worker


def _engine_of(settings: Settings) -> Renderer:
    """The engine of the settings' own models; none where the worker's lanes have remote ones alone."""
    if not settings.renders:
        return NoEngine()
    return Engine(
        {name: model for name, model in settings.models.items() if model.provider is None},
        settings.worker.device,
        settings=settings.engine,
        observer=EngineMetrics(),
        knees=settings.knees_file,
    )
