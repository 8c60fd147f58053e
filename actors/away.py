"""What is logged while the broker is away: one line of ours instead of those that Dramatiq writes every second."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from dramatiq.common import dq_name
from dramatiq.errors import BrokerConnectionError
from pika.exceptions import AMQPError

from actors.broker import is_mismatch, queue_name
from safelight.telemetry import get_logger
from safelight.telemetry.throttle import Throttle

_log = get_logger(__name__)

_BROKERS = ("dramatiq.brokers.rabbitmq.RabbitmqBroker", "dramatiq.brokers.rabbitmq._RabbitmqConsumer")


def quieten_consumers(lanes: Iterable[str]) -> None:
    """Let the lanes' consumers tell that the broker is away by ``broker.away``, now and then."""
    throttle = Throttle()

    def tell(error: str) -> None:
        if throttle.due(error):
            _log.warning("no bells are heard until the broker is back", action="broker.away", error=error)

    names = [name for lane in lanes for name in (queue_name(lane), dq_name(queue_name(lane)))]
    for logger in (*(f"dramatiq.worker.ConsumerThread({name})" for name in names), *_BROKERS):
        place = logging.getLogger(logger)
        place.filters[:] = [AwayFilter(tell)]


class AwayFilter(logging.Filter):
    """Keeps lines about a lost or refused connection out of the log; any other passes."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """``tell`` is called with the error's name instead."""
        super().__init__()
        self._tell = tell

    def filter(self, record: logging.LogRecord) -> bool:
        """False for what ``tell`` was called for."""
        error = _error_of(record)
        if not isinstance(error, (BrokerConnectionError, AMQPError, OSError)) or is_mismatch(error):
            return True
        cause = error.args[0] if error.args and isinstance(error.args[0], Exception) else error
        self._tell(type(cause).__name__)
        return False


def _error_of(record: logging.LogRecord) -> BaseException | None:
    """The error that a line is about: with its traceback, or among what its text is made of."""
    if record.exc_info and record.exc_info[1] is not None:
        return record.exc_info[1]
    args = record.args if isinstance(record.args, tuple) else ()
    return next((arg for arg in args if isinstance(arg, BaseException)), None)
