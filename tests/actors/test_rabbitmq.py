"""The same worker with RabbitMQ behind it, and what happens when RabbitMQ isn't as it should be."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from uuid import uuid4

import pika
import pytest

from actors.bell import BrokerBell
from actors.broker import BrokerSetupError, bell_message, declare_lanes, make_broker, queue_name
from actors.engine import Engine
from actors.progress import RabbitProgress, make_progress_channel
from actors.room import QueueRoom
from jobstore.job import JobState
from jobstore.live import Message, Preview, Progress
from jobstore.outputs import Outputs
from jobstore.postgres.store import PostgresStore
from tests.actors.harness import Darkroom
from tests.engine.conftest import TIMEOUT_S


@pytest.fixture
async def darkroom(
    store: PostgresStore, database: str, outputs: Outputs, engine: Engine, rabbitmq_url: str
) -> AsyncIterator[Darkroom]:
    """A darkroom whose bells go through RabbitMQ."""
    room = Darkroom(store, database, outputs, engine, rabbitmq_url)
    yield room
    room.progress.let_go()
    await room.stop(grace_s=0.1)
    drop_queues(rabbitmq_url, room.lane)


def drop_queues(url: str, lane: str) -> None:
    """Delete the lane's queues."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    for suffix in ("", ".DQ", ".XQ"):
        connection.channel().queue_delete(queue_name(lane) + suffix)
    connection.close()


def waiting(url: str, lane: str) -> int:
    """Messages of the lane that are ready or were not acked: those that come back when their consumers are gone."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    declared = connection.channel().queue_declare(queue_name(lane), passive=True)
    connection.close()
    return int(declared.method.message_count)


def closed_port() -> int:
    """A port of this machine on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_bell_through_rabbitmq(darkroom: Darkroom, rabbitmq_url: str) -> None:
    """The job is done and its message acked, the doubled one too."""
    await darkroom.start()
    job = await darkroom.submit(ring=False)
    darkroom.ring(times=2)
    assert (await darkroom.wait(job.id)).attempts == 1
    await darkroom.stop()
    assert waiting(rabbitmq_url, darkroom.lane) == 0


async def test_unacked_is_what_runs_and_ready_is_what_waits(darkroom: Darkroom, rabbitmq_url: str) -> None:
    """A worker takes as many bells as it has slots, so that others and autoscalers see the rest."""
    await darkroom.start(slots=1)
    darkroom.progress.hold()
    jobs = [await darkroom.submit(seed=seed) for seed in (1, 2, 3)]
    await darkroom.reached()
    await asyncio.to_thread(wait_for_bells, rabbitmq_url, darkroom.lane, 2)
    darkroom.progress.let_go()
    assert [(await darkroom.wait(job.id)).state for job in jobs] == [JobState.SUCCEEDED] * 3


def test_queue_of_other_arguments_is_a_clear_error(rabbitmq_url: str) -> None:
    """At the start, and it says what to do."""
    lane = f"t{uuid.uuid4().hex[:12]}"
    connection = pika.BlockingConnection(pika.URLParameters(rabbitmq_url))
    connection.channel().queue_declare(queue_name(lane), durable=False, exclusive=False)
    try:
        with pytest.raises(BrokerSetupError, match="other arguments"):
            declare_lanes(make_broker(rabbitmq_url), [lane])
    finally:
        connection.channel().queue_delete(queue_name(lane))
        connection.close()


def test_broker_that_is_away_is_no_reason_not_to_start() -> None:
    """Neither for a worker nor for a bell; bells beyond the bound are dropped, and nobody waits."""
    broker = make_broker(f"amqp://guest:guest@127.0.0.1:{closed_port()}")
    declare_lanes(broker, ["away"])
    bell = BrokerBell(broker, capacity=3)
    bell.start()
    for _ in range(100):
        bell.ring("away")
    bell.stop(0.5)


@pytest.mark.parametrize("url", ["http://host", "amqp://host:port", "redis://x"])
def test_url_of_another_kind_is_refused(url: str) -> None:
    """The error names the setting."""
    with pytest.raises(BrokerSetupError, match="broker"):
        make_broker(url)


def test_full_queue_takes_no_more_bells(rabbitmq_url: str) -> None:
    """The sweeper rings for the rest when there is room."""
    lane = f"t{uuid.uuid4().hex[:12]}"
    broker = make_broker(rabbitmq_url)
    rooms = QueueRoom(broker, limit=2, clock=itertools.count().__next__)
    assert not rooms.full(lane)
    for _ in range(2):
        broker.declare_queue(queue_name(lane))
        broker.enqueue(bell_message(lane))
    assert rooms.full(lane)
    drop_queues(rabbitmq_url, lane)
    assert not rooms.full(lane)
    broker.close()


def test_bell_outlives_its_queue(rabbitmq_url: str) -> None:
    """A queue deleted under it is declared again."""
    lane = f"t{uuid.uuid4().hex[:12]}"
    bell = BrokerBell(make_broker(rabbitmq_url))
    bell.start()
    bell.ring(lane)
    wait_for_bells(rabbitmq_url, lane, 1)
    drop_queues(rabbitmq_url, lane)
    bell.ring(lane)
    wait_for_bells(rabbitmq_url, lane, 1)
    bell.stop()
    drop_queues(rabbitmq_url, lane)


def wait_for_bells(url: str, lane: str, count: int) -> None:
    """Wait until so many bells wait in the lane's queue."""
    pause = threading.Event()
    for _ in range(int(TIMEOUT_S / 0.05)):
        try:
            if waiting(url, lane) == count:
                return
        except pika.exceptions.ChannelClosedByBroker:
            pass  # not declared yet
        pause.wait(0.05)
    pytest.fail("the bells never came")


def setter(event: threading.Event, awaited: Message) -> Callable[[Message], None]:
    """A listener that sets the event when the message comes."""

    def listen(message: Message) -> None:
        if message == awaited:
            event.set()

    return listen


@pytest.mark.parametrize(
    "sent",
    [
        Progress(job_id=uuid4(), step=3, steps=8, fraction=0.25),
        Preview(job_id=uuid4(), attempt=7, index=1, step=3, steps=8, image=bytes(range(256)), media_type="image/jpeg"),
    ],
    ids=["progress", "preview"],
)
def test_what_is_told_reaches_every_process(rabbitmq_url: str, sent: Message) -> None:
    """Two listening processes hear what a third one publishes, pictures to the byte."""
    worker, *apis = (make_progress_channel(rabbitmq_url) for _ in range(3))
    heard = [threading.Event() for _ in apis]
    for api, event in zip(apis, heard, strict=True):
        assert isinstance(api, RabbitProgress)
        api.listen(setter(event, sent))
        assert api.wait_listening(TIMEOUT_S)
    worker.publish(sent)
    assert all(event.wait(TIMEOUT_S) for event in heard)
    for channel in (worker, *apis):
        channel.close()
