"""Deliveries to a real receiver: what arrives, what counts as delivered, and what is tried again."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from ipaddress import ip_address
from typing import Any
from uuid import UUID

import msgspec
import psycopg
import pytest
from standardwebhooks.webhooks import Webhook

from actors.webhooks.connecting import SystemResolver
from actors.webhooks.courier import Courier
from actors.webhooks.sending import Sender
from jobstore.ids import uuid7
from jobstore.job import JobState, JobWebhook
from jobstore.postgres.store import PostgresStore
from jobstore.webhooks.addresses import Address
from jobstore.webhooks.model import ENDINGS, Delivery, DeliveryFilter, DeliveryState, NewEndpoint
from jobstore.webhooks.payload import LIMIT
from jobstore.webhooks.signing import make_secret
from tests.contract.making import new_job, new_worker, rendered
from tests.e2e.processes import free_port
from tests.webhooks.conftest import LOOPBACK
from tests.webhooks.receiver import Receiver, receiver

SECRET = make_secret()


async def submit(store: PostgresStore, url: str, **fields: Any) -> UUID:
    """The id of a job with a webhook of its own."""
    hook = JobWebhook(url=url, origin=url, events=ENDINGS, signed=True)
    new = msgspec.structs.replace(new_job(), webhook=hook, webhook_secret=SECRET, **fields)
    return (await store.submit(new)).id


async def deliver(courier: Courier) -> None:
    """Try all that is due."""
    await courier.look()
    await courier.idle()


async def sole(store: PostgresStore) -> Delivery:
    """The only delivery."""
    [delivery] = (await store.deliveries(DeliveryFilter(all_keys=True))).deliveries
    return delivery


async def every(store: PostgresStore, key_id: UUID) -> tuple[Delivery, ...]:
    """All deliveries of a key."""
    return (await store.deliveries(DeliveryFilter(key_id=key_id))).deliveries


def pass_time(database: str) -> None:
    """Let whatever waits for a retry be due."""
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE webhook_delivery SET next_at = clock_timestamp() WHERE state = 'pending'")


def wait_of(delivery: Delivery) -> float:
    """Seconds from the last try to the next."""
    assert delivery.next_at is not None
    assert delivery.tried_at is not None
    return (delivery.next_at - delivery.tried_at).total_seconds()


async def test_what_arrives(store: PostgresStore, courier: Courier, hook: Receiver) -> None:
    """A signed message with links, as the standard's own library reads it."""
    job_id = await submit(store, f"{hook.url}/done?token=7")
    job = await rendered(store, new_worker())
    await deliver(courier)
    [received] = hook.received
    assert received.path == "/done?token=7"
    assert received.headers["content-type"] == "application/json"
    assert received.headers["user-agent"].startswith("safelight/")
    message = Webhook(SECRET).verify(received.body, received.headers)
    assert (message["type"], set(message)) == ("job.succeeded", {"type", "timestamp", "data"})
    data = message["data"]
    url = f"https://pictures.example/v1/jobs/{job_id}"
    assert (data["id"], data["state"], data["url"]) == (str(job_id), "succeeded", url)
    assert [image["url"] for image in data["images"]] == [f"{url}/images/0"]
    assert data["images"][0]["sha256"] == job.pictures[0].sha256
    assert data["cost"] == {"currency": "USD", "charged": "0.002", "gpu_seconds": "0.5"}
    delivery = await sole(store)
    assert (delivery.state, delivery.status, delivery.attempts) == (DeliveryState.DELIVERED, 204, 1)
    assert received.headers["webhook-id"] == str(delivery.id)
    await deliver(courier)
    assert len(hook.received) == 1


@pytest.mark.parametrize("answer", [301, 302, 307, 308, 400, 404, 429, 500, 503, 0])
async def test_nothing_but_2xx_is_delivered(
    store: PostgresStore, courier: Courier, hook: Receiver, database: str, answer: int
) -> None:
    """No redirect is followed; it is tried again under the same id, with a new timestamp and the same body."""
    hook.answers = [(answer, {"Location": f"{hook.url}/elsewhere"})]
    await submit(store, f"{hook.url}/here")
    await rendered(store, new_worker())
    await deliver(courier)
    waiting = await sole(store)
    assert (waiting.state, waiting.status) == (DeliveryState.PENDING, answer or None)
    assert waiting.error
    assert 5.0 <= wait_of(waiting) <= 7.0
    pass_time(database)
    await deliver(courier)
    assert [received.path for received in hook.received] == ["/here"] * 2
    first, second = hook.received
    assert (first.headers["webhook-id"], first.body) == (second.headers["webhook-id"], second.body)
    delivery = await sole(store)
    assert (delivery.state, delivery.attempts, delivery.error) == (DeliveryState.DELIVERED, 2, None)


async def test_the_schedule_ends(store: PostgresStore, courier: Courier, hook: Receiver, database: str) -> None:
    """Thirteen tries, then it is given up; asked for anew, it is delivered under its old id."""
    hook.answers = [500] * 13
    await submit(store, hook.url)
    await rendered(store, new_worker())
    waits = []
    for _ in range(13):
        await deliver(courier)
        delivery = await sole(store)
        if delivery.state is DeliveryState.PENDING:
            waits.append(wait_of(delivery))
        pass_time(database)
    assert waits == sorted(waits)
    assert len(waits) == 12
    assert 67 <= sum(waits) / 3600 <= 82
    assert ((await sole(store)).state, (await sole(store)).attempts) == (DeliveryState.FAILED, 13)
    await deliver(courier)
    assert len(hook.received) == 13
    await store.redeliver((await sole(store)).id)
    await deliver(courier)
    assert (await sole(store)).state is DeliveryState.DELIVERED
    assert len({received.headers["webhook-id"] for received in hook.received}) == 1


async def test_a_receiver_that_is_down_costs_the_job_nothing(
    store: PostgresStore, courier: Courier, database: str
) -> None:
    """It succeeds meanwhile, others can be canceled, and the message arrives when the receiver is back."""
    port = free_port()
    job_id = await submit(store, f"http://127.0.0.1:{port}")
    await rendered(store, new_worker())
    await deliver(courier)
    assert (await store.get(job_id)).state is JobState.SUCCEEDED
    waiting = await sole(store)
    assert (waiting.state, waiting.status) == (DeliveryState.PENDING, None)
    assert "no answer" in (waiting.error or "")
    other = await store.submit(new_job())
    assert (await store.cancel(other.id)).job.state is JobState.CANCELED
    pass_time(database)
    with receiver(port) as back:
        await deliver(courier)
        assert json.loads(back.received[0].body)["data"]["id"] == str(job_id)


async def test_a_receivers_retry_after_is_kept(store: PostgresStore, courier: Courier, hook: Receiver) -> None:
    """Where it is longer than the schedule's pause."""
    hook.answers = [(503, {"Retry-After": "900"})]
    await submit(store, hook.url)
    await rendered(store, new_worker())
    await deliver(courier)
    assert 900 <= wait_of(await sole(store)) <= 901


async def test_410_ends_it(store: PostgresStore, courier: Courier, hook: Receiver) -> None:
    """The endpoint is disabled; a job's own hook is not tried again."""
    hook.answers = [410, 410]
    new = NewEndpoint(key_id=None, url=hook.url, origin=hook.url, secret=SECRET)
    endpoint = await store.add_endpoint(new, most=1)
    await submit(store, hook.url)
    await rendered(store, new_worker())
    await deliver(courier)
    states = {delivery.state for delivery in (await store.deliveries(DeliveryFilter())).deliveries}
    assert states == {DeliveryState.FAILED}
    assert "410" in (await store.endpoint(endpoint.id)).reason
    await store.submit(new_job())
    await rendered(store, new_worker())
    await deliver(courier)
    assert len(hook.received) == 2


async def test_a_try_whose_process_died_is_made_again(
    store: PostgresStore, courier: Courier, hook: Receiver, database: str
) -> None:
    """After its lease, by anybody, under the same id."""
    await submit(store, hook.url)
    await rendered(store, new_worker())
    [lost] = await store.claim_deliveries(1, lease_s=60)
    await deliver(courier)
    assert hook.received == []
    pass_time(database)
    await deliver(courier)
    assert [received.headers["webhook-id"] for received in hook.received] == [str(lost.id)]


async def test_a_refused_address_is_told_and_tried_by_the_schedule(store: PostgresStore, hook: Receiver) -> None:
    """Nothing is sent to it."""
    courier = Courier(store, msgspec.structs.replace(LOOPBACK, allow_private=False))
    await submit(store, hook.url)
    await rendered(store, new_worker())
    await deliver(courier)
    await courier.close()
    delivery = await sole(store)
    assert (delivery.state, delivery.status) == (DeliveryState.PENDING, None)
    assert "loopback addresses are not called" in (delivery.error or "")
    assert hook.received == []


async def test_a_receiver_that_never_answers_is_left(store: PostgresStore) -> None:
    """After the time limit, however it drips; another receiver is served meanwhile."""

    async def hang(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while not writer.is_closing():
            writer.write(b"X-Drip: 1\r\n")
            await asyncio.sleep(0.02)

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    courier = Courier(store, msgspec.structs.replace(LOOPBACK, timeout_s=0.3))
    await submit(store, f"http://127.0.0.1:{port}")
    await rendered(store, new_worker())
    await deliver(courier)
    await courier.close()
    server.close()
    assert (await sole(store)).error == "no answer within 0.3 s"


async def test_a_keys_slow_receivers_hold_up_no_other_key(store: PostgresStore, hook: Receiver) -> None:
    """One key has very many host names that never answer; a message of another's arrives all the same."""
    answered = asyncio.Event()

    async def hang(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answered.wait()
        writer.close()

    async def resolve(_host: str, _port: int) -> list[Address]:
        return [ip_address("127.0.0.1")]

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    crowd, slots = uuid7(), 8
    for index in range(2 * slots):
        url = f"http://h{index}.example:{port}"
        new = NewEndpoint(key_id=crowd, url=url, origin=url, secret=SECRET)
        await store.test_endpoint((await store.add_endpoint(new, most=100)).id)
    settings = msgspec.structs.replace(LOOPBACK, slots=slots)
    courier = Courier(store, settings, Sender(settings, resolve))
    await courier.look()
    await submit(store, hook.url)
    await rendered(store, new_worker())
    await courier.look()
    await asyncio.to_thread(hook.wait)
    assert [delivery.attempts for delivery in await every(store, crowd)].count(1) == slots // 4
    answered.set()
    await courier.close()
    server.close()


async def test_names_that_hang_are_no_try_of_another_receiver(
    store: PostgresStore, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all threads wait for name servers, a delivery waits, and its schedule doesn't go on."""
    held = threading.Event()
    known = socket.getaddrinfo

    def slow(host: Any, *rest: Any, **more: Any) -> Any:
        if "slow" in str(host):
            held.wait(20)
            raise socket.gaierror("no answer")
        return known("127.0.0.1", *rest, **more)

    monkeypatch.setattr("actors.webhooks.connecting.socket.getaddrinfo", slow)
    resolver = SystemResolver(2, turn_s=0.05)
    hanging = [asyncio.create_task(resolver(f"slow{index}.example", 80)) for index in range(2)]
    await asyncio.sleep(0)
    url = hook.url.replace("127.0.0.1", "hooks.example")
    await submit(store, url)
    await rendered(store, new_worker())
    courier = Courier(store, LOOPBACK, Sender(LOOPBACK, resolver))
    await deliver(courier)
    delivery = await sole(store)
    assert "slow name servers" in (delivery.error or "")
    held.set()
    await asyncio.gather(*hanging, return_exceptions=True)
    await store.redeliver(delivery.id)
    await deliver(courier)
    assert (await sole(store)).state is DeliveryState.DELIVERED
    await courier.close()
    resolver.close()


async def test_messages_stay_small(store: PostgresStore, courier: Courier, hook: Receiver) -> None:
    """The prompt is not in them, and what a client can make long is left out."""
    dimensions = {f"d{index:02}": "\U0001f600" * 256 for index in range(16)}
    fields = {"dimensions": dimensions, "request": new_job(prompt="x" * 30_000, n=10).request}
    await submit(store, hook.url, **fields)
    await rendered(store, new_worker())
    await deliver(courier)
    [received] = hook.received
    assert len(received.body) <= LIMIT
    data = json.loads(received.body)["data"]
    assert "x" * 100 not in received.body.decode()
    assert (len(data["images"]), data.get("dimensions")) in ((10, dimensions), (10, None))


async def test_a_courier_runs_by_itself(store: PostgresStore, hook: Receiver) -> None:
    """At a nudge, and by its own looks."""
    courier = Courier(store, msgspec.structs.replace(LOOPBACK, look_s=0.05))
    running = asyncio.create_task(courier.run())
    await submit(store, hook.url)
    await rendered(store, new_worker())
    await asyncio.to_thread(hook.wait)
    slow = Courier(store, msgspec.structs.replace(LOOPBACK, look_s=1000.0))
    running.cancel()
    nudged = asyncio.create_task(slow.run())
    await asyncio.sleep(0)
    await submit(store, hook.url)
    await rendered(store, new_worker())
    slow.nudge()
    await asyncio.to_thread(hook.wait, 2)
    nudged.cancel()
    await courier.close()
    await slow.close()
