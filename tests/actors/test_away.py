"""What of Dramatiq's logs is kept out while the broker is away."""

from __future__ import annotations

import logging

from dramatiq.errors import ConnectionClosed
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker

from actors.away import AwayFilter


def record(text: str, *args: object, error: Exception | None = None) -> logging.LogRecord:
    """A line as Dramatiq logs it, with ``error`` as its traceback."""
    info = None if error is None else (type(error), error, None)
    return logging.LogRecord("dramatiq", logging.CRITICAL, __file__, 1, text, args, info)


def test_lost_connections_are_told_by_their_cause() -> None:
    """Whether they are named in the line or in its traceback; anything else is logged as it is."""
    told: list[str] = []
    away = AwayFilter(told.append)
    assert not away.filter(record("Connection error: %s", ConnectionClosed(AMQPConnectionError())))
    assert not away.filter(record("Failed to ack.", error=ConnectionResetError()))
    assert told == ["AMQPConnectionError", "ConnectionResetError"]
    assert away.filter(record("Failed to decode.", error=ValueError()))
    assert away.filter(
        record(
            "Connection error: %s",
            ConnectionClosed(ChannelClosedByBroker(406, "PRECONDITION_FAILED - inequivalent arg 'x-expires'")),
        )
    )
    assert away.filter(record("Message %s was skipped.", "m"))
    assert len(told) == 2
