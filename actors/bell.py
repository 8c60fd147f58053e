"""Rings bells: one publisher thread, so that nobody who rings waits for a broker."""

from __future__ import annotations

import contextlib
import queue
import threading

from dramatiq import Broker
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from actors.broker import bell_message, queue_name
from actors.room import QueueRoom
from safelight.telemetry import get_logger
from safelight.telemetry.metrics import BELLS
from safelight.telemetry.throttle import Throttle

_log = get_logger(__name__)

_IDLE_S = 5.0
_QUEUE_LIMIT = 50_000
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


class BrokerBell:
    """A bell (``jobstore.live.Bell``) that publishes through a Dramatiq broker.

    A lane's queue takes no more than 50,000 bells, and up to ``capacity`` wait here while the broker is away; more are
    dropped and counted: the sweeper rings again for every job that nobody came for.
    """

    def __init__(self, broker: Broker, capacity: int = 10_000) -> None:
        self._broker = broker
        self._room = QueueRoom(broker, limit=_QUEUE_LIMIT)
        self._trouble = Throttle()
        self._waiting: queue.Queue[str | None] = queue.Queue(capacity)
        self._stopping = threading.Event()
        self._away = False
        self._thread = threading.Thread(target=self._run, name="bell", daemon=True)

    def start(self) -> None:
        """Start the publisher thread."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Publish what waits, for at most ``timeout`` seconds, and end."""
        self._stopping.set()
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        if self._thread.ident is not None:
            self._thread.join(timeout)

    @property
    def away(self) -> bool:
        """True while bells can't be rung, as far as the last try tells."""
        return self._away

    def ring(self, lane: str) -> None:
        """Ask for one bell. Returns at once, from any thread; never raises because a broker is away."""
        try:
            self._waiting.put_nowait(lane)
        except queue.Full:
            BELLS.labels("dropped").inc()

    def _run(self) -> None:
        while (lane := self._next()) is not None:
            if not self._delivered(lane):
                break
        self._disconnect()

    def _delivered(self, lane: str) -> bool:
        """Publish, trying again until it works or is not wanted; False where the bell is stopped meanwhile."""
        pause = _FIRST_PAUSE_S
        while not self._published(lane):
            if self._stopping.wait(pause):
                return False
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        return True

    def _next(self) -> str | None:
        """The next bell; None at the end. The connection is kept alive while there is nothing to ring."""
        while True:
            try:
                return self._waiting.get(timeout=_IDLE_S)
            except queue.Empty:
                if self._stopping.is_set():
                    return None
                self._keep_alive()

    def _published(self, lane: str) -> bool:
        try:
            if self._room.full(lane):
                BELLS.labels("dropped").inc()
                return True
            self._broker.declare_queue(queue_name(lane))
            self._broker.enqueue(bell_message(lane))
        except Exception as error:
            name = type(error).__name__
            self._away = True
            if self._trouble.due(name):
                _log.warning("bell not rung, trying again", action="bell.broker_away", error=name)
            return False
        self._away = False
        if self._trouble.over():
            _log.info("bells are rung again", action="bell.broker_back")
        BELLS.labels("rung").inc()
        return True

    def _keep_alive(self) -> None:
        if not isinstance(self._broker, RabbitmqBroker) or not self._broker.connections:
            return
        try:
            self._broker.connection.process_data_events(0)
        except Exception as error:
            _log.info("connection of the bell lost", action="bell.connection_lost", error=type(error).__name__)
            self._disconnect()

    def _disconnect(self) -> None:
        if isinstance(self._broker, RabbitmqBroker):
            del self._broker.connection
