"""The broker behind the bells: RabbitMQ, or queues in memory for a process that is everything in one."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from urllib.parse import urlsplit

import pika
from dramatiq import Broker, Message, Middleware
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.stub import StubBroker
from dramatiq.errors import ConnectionClosed
from dramatiq.middleware import AsyncIO

from jobstore.live import WEBHOOKS_BELL
from safelight.telemetry import get_logger

_log = get_logger(__name__)

# Names carry a version: a release that declares queues with other arguments uses new ones beside the old.
_PREFIX = "safelight.v1.render"
_WEBHOOKS = "safelight.v1.webhooks"
_HEARTBEAT_S = 30
_BLOCKED_S = 10.0
_SOCKET_S = 5.0
_PRECONDITION_FAILED = 406


class BrokerSetupError(Exception):
    """The broker can't be used as it is set up; the message says what to do."""


def make_broker(url: str) -> Broker:
    """A broker for ``memory`` or ``amqp://…``; nothing is connected yet. Raises BrokerSetupError.

    Of Dramatiq's middleware only AsyncIO is in it: the store keeps attempts, delays and deadlines, and an exception
    thrown into a thread can't stop a device call.
    """
    middleware: list[Middleware] = [AsyncIO()]
    if url == "memory":
        return StubBroker(middleware=middleware)
    if urlsplit(url).scheme not in ("amqp", "amqps"):
        raise BrokerSetupError("broker: expected 'memory' or a URL like amqp://host")
    parameters = connection_parameters(url)
    broker = RabbitmqBroker(middleware=middleware, confirm_delivery=True)
    broker.parameters = parameters  # its constructor takes a URL or parameters, not the one improved by the other
    return broker


def connection_parameters(url: str) -> pika.URLParameters:
    """Connection parameters that notice a dead or blocked broker within seconds."""
    try:
        parameters = pika.URLParameters(url)
    except (ValueError, IndexError) as error:
        raise BrokerSetupError(
            "broker: the amqp URL can't be read; expected amqp://user:password@host/vhost"
        ) from error
    parameters.heartbeat = _HEARTBEAT_S
    parameters.blocked_connection_timeout = _BLOCKED_S
    parameters.socket_timeout = _SOCKET_S
    parameters.stack_timeout = 2 * _SOCKET_S
    parameters.connection_attempts = 1
    return parameters


def queue_name(lane: str) -> str:
    """The queue of a lane's bells, or of those for webhooks."""
    return _WEBHOOKS if lane == WEBHOOKS_BELL else f"{_PREFIX}.{lane}"


def actor_name(lane: str) -> str:
    """The actor that answers a lane's bells, or those for webhooks."""
    return "webhooks" if lane == WEBHOOKS_BELL else f"render.{lane}"


def bell_message(lane: str) -> Message[None]:
    """A bell: it says that there is work in the lane, and nothing of what it is."""
    return Message(
        queue_name=queue_name(lane),
        actor_name=actor_name(lane),
        args=(lane,),
        kwargs={},
        options={},
        message_id=str(uuid.uuid4()),
    )


def declare_lanes(broker: Broker, lanes: Iterable[str]) -> None:
    """Declare the lanes' queues. A broker that is away is left to the consumers, which come back to it.

    Raises BrokerSetupError where a queue of that name was declared with other arguments.
    """
    for lane in lanes:
        broker.declare_queue(queue_name(lane))
    if not isinstance(broker, RabbitmqBroker):
        return
    try:
        for lane in lanes:
            broker.declare_queue(queue_name(lane), ensure=True)
    except ConnectionClosed as error:
        if is_mismatch(error):
            raise BrokerSetupError(
                "broker: a queue of the same name exists with other arguments. Delete the queues "
                f"{_PREFIX}.* (bells are rung again by the sweeper) or use another vhost"
            ) from error
        _log.warning("broker away at start", action="broker.away", error=type(error).__name__)
    except OSError as error:
        _log.warning("broker away at start", action="broker.away", error=type(error).__name__)
    finally:
        del broker.connection  # it belongs to the calling thread, where nobody would answer heartbeats


def is_mismatch(error: Exception) -> bool:
    """True where the broker refused a declaration because the queue has other arguments.

    That is AMQP's 406, and so is a consumer that was too slow to ack: RabbitMQ tells them apart in words alone.
    """
    return any(
        getattr(cause, "reply_code", None) == _PRECONDITION_FAILED
        and "inequivalent" in str(getattr(cause, "reply_text", ""))
        for cause in error.args
    )
