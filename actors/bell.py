"""Rings bells: one publisher thread, so that nobody who rings waits for a broker."""

from __future__ import annotations

import threading
import time
from collections import deque

from dramatiq import Broker
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from actors.broker import bell_message, queue_name
from actors.room import QueueRoom
from safelight.telemetry import get_logger
from safelight.telemetry.metrics import BELLS
from safelight.telemetry.throttle import Throttle

_log = get_logger(__name__)

_IDLE_S = 5.0
_GATHER_S = 0.005  # while many ring: each waking of the publisher takes the processor from those who ring
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
        self._waiting: deque[str] = deque()
        self._capacity = capacity
        self._rung = threading.Event()
        self._stopping = threading.Event()
        self._away = False
        self._until = 0.0
        self._thread = threading.Thread(target=self._run, name="bell", daemon=True)

    def start(self) -> None:
        """Start the publisher thread."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Publish what waits, for at most ``timeout`` seconds, and end."""
        self._until = time.monotonic() + timeout
        self._stopping.set()
        self._rung.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    @property
    def away(self) -> bool:
        """True while bells can't be rung, as far as the last try tells."""
        return self._away

    def ring(self, lane: str) -> None:
        """Ask for one bell. Returns at once, from any thread; never raises because a broker is away."""
        if len(self._waiting) >= self._capacity:
            BELLS.labels("dropped").inc()
            return
        self._waiting.append(lane)
        if not self._rung.is_set():
            self._rung.set()

    def _run(self) -> None:
        while self._awaited():
            if not self._publish_all():
                break
            if not self._stopping.is_set():
                time.sleep(_GATHER_S)
        self._disconnect()

    def _publish_all(self) -> bool:
        """Publish what waits; False where the bell is stopped before it is."""
        while self._waiting:
            if not self._delivered(self._waiting[0]):
                return False
            self._waiting.popleft()
        return True

    def _delivered(self, lane: str) -> bool:
        """Publish, trying again until it works; False where the bell is stopped and its time is up."""
        pause = _FIRST_PAUSE_S
        while not self._published(lane):
            if self._stopping.is_set():
                if time.monotonic() >= self._until:
                    return False
                time.sleep(_FIRST_PAUSE_S)
            elif not self._stopping.wait(pause):
                pause = min(2 * pause, _LONGEST_PAUSE_S)
        return True

    def _awaited(self) -> bool:
        """True when somebody rang; False at the end. The connection is kept alive while there is nothing to ring."""
        while not self._waiting:
            if self._stopping.is_set():
                return False
            if not self._rung.wait(_IDLE_S):
                self._keep_alive()
            self._rung.clear()
        return True

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
