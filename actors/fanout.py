"""The two ends of a RabbitMQ fanout exchange that carries progress and previews.

Both come back by themselves when it was away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec
import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from actors.broker import connection_parameters
from actors.latest import Latest
from jobstore.live import Message
from safelight.telemetry import get_logger
from safelight.telemetry.throttle import Throttle

_log = get_logger(__name__)

EXCHANGE = "safelight.v1.progress"
_IDLE_S = 5.0
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
_QUEUE_LIMIT = 10_000  # messages that a slow listener may have waiting at the broker; the oldest go first
_QUEUE_LIMIT_BYTES = 64 * 1024 * 1024

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode


def open_channel(url: str) -> BlockingChannel:
    """A channel on a connection of its own, with the exchange declared (not durable: what it carries isn't kept)."""
    channel = pika.BlockingConnection(connection_parameters(url)).channel()
    channel.exchange_declare(EXCHANGE, exchange_type="fanout", durable=False)
    return channel


class FanoutPublisher:
    """Publishes what waits, from one thread. While the broker is away only the latest of each job is kept."""

    def __init__(self, url: str, waiting: Latest[Message]) -> None:
        self._url = url
        self._waiting = waiting
        self._channel: BlockingChannel | None = None
        self._trouble = Throttle()

    def run(self) -> None:
        """Publish until the queue is closed."""
        pause = _FIRST_PAUSE_S
        while not self._waiting.closed:
            try:
                self._publish_next()
                pause = _FIRST_PAUSE_S
            except (AMQPError, OSError) as error:
                if self._trouble.due(name := type(error).__name__):
                    _log.info("progress not sent", action="progress.broker_away", error=name)
                _close(self._channel)
                self._channel = None
                self._waiting.wait_closed(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
        _close(self._channel)

    def _publish_next(self) -> None:
        message = self._waiting.get(_IDLE_S)
        if message is None:
            if self._channel is not None:
                self._channel.connection.process_data_events(0)  # answers heartbeats
            return
        if self._channel is None:
            self._channel = open_channel(self._url)
            if self._trouble.over():
                _log.info("progress is sent again", action="progress.broker_back")
        self._channel.basic_publish(EXCHANGE, "", _encode(message))


class FanoutListener:
    """Hears everything that is published, from one thread, through a queue that goes when it goes."""

    def __init__(self, url: str, tell: Callable[[Message], None]) -> None:
        self._url = url
        self._tell = tell
        self._stopping = threading.Event()
        self._trouble = Throttle()
        self.bound = threading.Event()

    def run(self) -> None:
        """Listen until stopped."""
        pause = _FIRST_PAUSE_S
        while not self._stopping.is_set():
            try:
                self._listen()
                pause = _FIRST_PAUSE_S
            except (AMQPError, OSError) as error:
                if self.bound.is_set():
                    pause = _FIRST_PAUSE_S
                self.bound.clear()
                if self._trouble.due(name := type(error).__name__):
                    _log.info("progress not heard", action="progress.broker_away", error=name)
                self._stopping.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    def stop(self) -> None:
        """Ask the thread to end; it does within a second."""
        self._stopping.set()

    def _listen(self) -> None:
        channel = open_channel(self._url)
        try:
            queue = channel.queue_declare(
                "",
                exclusive=True,
                auto_delete=True,
                arguments={"x-max-length": _QUEUE_LIMIT, "x-max-length-bytes": _QUEUE_LIMIT_BYTES},
            ).method.queue
            channel.queue_bind(queue, EXCHANGE)
            self.bound.set()
            if self._trouble.over():
                _log.info("progress is heard again", action="progress.broker_back")
            for method, _properties, body in channel.consume(queue, auto_ack=True, inactivity_timeout=0.5):
                if self._stopping.is_set():
                    return
                if method is not None:
                    self._hear(body)
        finally:
            _close(channel)

    def _hear(self, body: bytes) -> None:
        try:
            message = _decode(body)
        except msgspec.DecodeError:  # another release's message; the next one may be readable
            return
        self._tell(message)


def _close(channel: BlockingChannel | None) -> None:
    try:
        if channel is not None and channel.connection.is_open:
            channel.connection.close()
    except (AMQPError, OSError):
        pass
