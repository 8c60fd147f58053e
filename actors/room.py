"""Whether a lane's queue has room for another bell.

While there is a backlog the sweeper rings again and again for jobs that wait longer than its interval. Each such bell
is harmless, but a long night of them would fill the broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from dramatiq import Broker
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from pika.exceptions import AMQPChannelError

from actors.broker import queue_name

_LOOK_EVERY_S = 1.0


class QueueRoom:
    """Looks at the length of queues, of each at most once a second. Belongs to the thread that publishes."""

    def __init__(self, broker: Broker, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._broker = broker
        self._limit = limit
        self._clock = clock
        self._seen: dict[str, tuple[float, bool]] = {}

    def full(self, lane: str) -> bool:
        """True when the lane's queue held ``limit`` messages or more at the last look."""
        now = self._clock()
        seen_at, full = self._seen.get(lane, (float("-inf"), False))
        if now - seen_at >= _LOOK_EVERY_S:
            full = self._length(queue_name(lane)) >= self._limit
            self._seen[lane] = (now, full)
        return full

    def _length(self, queue: str) -> int:
        if not isinstance(self._broker, RabbitmqBroker):
            waiting = self._broker.queues.get(queue)
            return 0 if waiting is None else waiting.qsize()
        try:
            return int(self._broker.channel.queue_declare(queue, passive=True).method.message_count)
        except AMQPChannelError:  # it is not there yet, and the failed look has closed the channel
            del self._broker.channel
            return 0
