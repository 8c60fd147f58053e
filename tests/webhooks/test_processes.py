"""Who delivers: a worker while all its slots are taken, and a process that does nothing else, over RabbitMQ."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator

import msgspec
import pika
import pytest

from actors.bell import BrokerBell
from actors.broker import make_broker, queue_name
from actors.webhooks.process import DeliveryProcess
from actors.worker import WorkerProcess
from jobstore.job import JobState, JobWebhook
from jobstore.live import WEBHOOKS_BELL
from jobstore.outputs import Outputs
from jobstore.postgres.store import PostgresStore
from jobstore.webhooks.model import JOB_EVENTS
from safelight.config import Settings, WebhookSettings, WorkerSettings
from tests.actors.harness import GatedProgress, new_job
from tests.actors.standin import StandInEngine
from tests.engine.conftest import scenes
from tests.webhooks.receiver import Receiver

MODEL = scenes()
WEBHOOKS = WebhookSettings(allow_http=True, allow_private=True, look_s=600.0)


def settings(lane: str, webhooks: WebhookSettings = WEBHOOKS) -> Settings:
    """One slot; nothing is found by looking."""
    worker = WorkerSettings(lanes=(lane,), device="cpu", slots=1, beat_s=0.1, look_s=600.0, sweep_s=600.0)
    return Settings(models={"scenes": MODEL}, worker=worker, webhooks=webhooks)


@pytest.fixture
def broker_url(rabbitmq_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A broker with a queue of this test's own for webhooks."""
    monkeypatch.setattr("actors.broker._WEBHOOKS", f"safelight.test.webhooks.{uuid.uuid4().hex[:8]}")
    return rabbitmq_url


@pytest.fixture
async def bell(broker_url: str) -> AsyncIterator[BrokerBell]:
    """A bell of another process."""
    broker = make_broker(broker_url)
    bell = BrokerBell(broker)
    bell.start()
    yield bell
    await asyncio.to_thread(bell.stop)
    broker.close()
    connection = pika.BlockingConnection(pika.URLParameters(broker_url))
    for suffix in ("", ".DQ", ".XQ"):
        connection.channel().queue_delete(queue_name(WEBHOOKS_BELL) + suffix)
    connection.close()


async def test_a_process_that_only_delivers(
    store: PostgresStore, database: str, bell: BrokerBell, broker_url: str, hook: Receiver
) -> None:
    """A bell through RabbitMQ wakes it; stopped, it delivers no more."""
    process = DeliveryProcess(settings("none"), lambda: PostgresStore(database), make_broker(broker_url))
    await asyncio.to_thread(process.start)
    try:
        await submit(store, "none", hook, seed=1)
        bell.ring(WEBHOOKS_BELL)
        await asyncio.to_thread(hook.wait)
    finally:
        await asyncio.to_thread(process.stop)
    await submit(store, "none", hook, seed=2)
    assert [json.loads(found.body)["type"] for found in hook.received] == ["job.queued"]
    assert (await store.outstanding()).pending == 1


async def test_a_worker_delivers_while_its_slots_are_taken(
    store: PostgresStore,
    database: str,
    outputs: Outputs,
    bell: BrokerBell,
    broker_url: str,
    hook: Receiver,
) -> None:
    """One job holds the only slot, others wait: their messages arrive all the same, and so does that of its end."""
    lane = f"t{uuid.uuid4().hex[:12]}"
    worker = WorkerProcess(
        settings(lane),
        lambda: PostgresStore(database),
        outputs,
        make_broker(broker_url),
        bell,
        GatedProgress(),
        engine=StandInEngine().engine,
    )
    await asyncio.to_thread(worker.start)
    try:
        running = await submit(store, lane, hook, seed=1)
        for seed in (2, 3):
            await submit(store, lane, hook, seed=seed)
        for _ in range(3):
            bell.ring(lane)
        bell.ring(WEBHOOKS_BELL)
        received = await asyncio.to_thread(hook.wait, 4)
        told = [json.loads(found.body) for found in received]
        assert sorted(message["type"] for message in told) == ["job.queued"] * 3 + ["job.started"]
        assert (await store.get(running)).state is JobState.RUNNING
    finally:
        await asyncio.to_thread(worker.stop, 0.1)


async def submit(store: PostgresStore, lane: str, hook: Receiver, seed: int) -> uuid.UUID:
    """The id of a job that tells everything."""
    told = JobWebhook(url=hook.url, origin=hook.url, events=JOB_EVENTS)
    job = await store.submit(msgspec.structs.replace(new_job(lane, seed=seed), webhook=told))
    return job.id
