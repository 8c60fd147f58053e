"""Deliveries in any store: taken under a lease, in turn, tried again, and given up in the end."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec

from jobstore.ids import uuid7
from jobstore.postgres import deliveries as postgres
from jobstore.postgres.store import PostgresStore
from jobstore.protocol import JobStore
from jobstore.rules.rows import NOBODY
from jobstore.sqlite import deliveries as sqlite
from jobstore.webhooks.model import (
    DeliveryState,
    UnderWay,
)
from jobstore.webhooks.rows import to_claim
from tests.contract.hooking import (
    DELIVERED,
    FAILED,
    LONG_S,
    ORIGIN,
    URL,
    add,
    crowded,
    hooked,
    retried,
    sole,
    take,
)
from tests.contract.making import new_job, new_worker, rendered


async def test_a_claim_brings_all_that_a_try_needs(store: JobStore) -> None:
    """The address, the secrets, the event and the job with its pictures."""
    endpoint = await add(store)
    job = await store.submit(hooked())
    await rendered(store, new_worker())
    dues = {due.endpoint_id: due for due in await take(store)}
    own, subscribed = dues[None], dues[endpoint.id]
    assert (own.url, own.secrets, own.tries) == (URL, ("whsec_b3du",), 1)
    assert subscribed.secrets == ("whsec_b25l",)
    for due in (own, subscribed):
        assert (due.type, due.event["state"], due.payload) == ("job.succeeded", "succeeded", None)
        assert due.job is not None
        assert (due.job.id, len(due.job.pictures)) == (job.id, 1)
    assert await take(store) == []


async def test_what_is_not_settled_is_due_again_under_its_id(store: JobStore) -> None:
    """A process that died between claim and settle costs its lease; what it says later changes nothing."""
    await add(store)
    await store.submit(new_job())
    await rendered(store, new_worker())
    [lost] = await take(store, lease_s=0)
    [again] = await take(store)
    assert (again.id, again.attempt, again.tries) == (lost.id, 2, 2)
    await store.settle_delivery(lost, DELIVERED, LONG_S)
    assert (await sole(store)).state is DeliveryState.PENDING
    await store.settle_delivery(again, DELIVERED, LONG_S)
    delivery = await sole(store)
    assert (delivery.state, delivery.status, delivery.error, delivery.next_at) == (
        DeliveryState.DELIVERED,
        200,
        None,
        None,
    )
    assert delivery.delivered_at is not None
    await store.settle_delivery(again, FAILED, LONG_S)
    assert await sole(store) == delivery


async def test_a_retry_keeps_the_body_and_waits(store: JobStore) -> None:
    """Until it is given up; asked for anew, it begins its schedule again under the same id."""
    await add(store)
    await store.submit(new_job())
    await rendered(store, new_worker())
    first = await retried(store, msgspec.structs.replace(FAILED, payload='{"a":1}'))
    [due] = await take(store)
    assert (due.id, due.payload, due.tries) == (first.id, '{"a":1}', 2)
    await store.settle_delivery(due, msgspec.structs.replace(FAILED, payload="other", retry_in_s=3600.0), LONG_S)
    assert await take(store) == []
    waiting = await sole(store)
    assert (waiting.state, waiting.status, waiting.error) == (DeliveryState.PENDING, 500, "answered 500")
    assert waiting.next_at is not None
    assert waiting.tried_at is not None
    assert (await store.outstanding()).pending == 1
    asked = await store.redeliver(waiting.id)
    assert (asked.id, asked.state, asked.attempts) == (first.id, DeliveryState.PENDING, 2)
    [due] = await take(store)
    assert (due.id, due.payload, due.attempt, due.tries) == (first.id, '{"a":1}', 3, 1)
    await store.settle_delivery(due, FAILED, LONG_S)
    assert (await sole(store)).state is DeliveryState.FAILED
    assert (await store.outstanding()).pending == 0


async def test_claims_at_once_take_each_once(stores: tuple[JobStore, ...]) -> None:
    """Three processes; none waits for another's rows."""
    for part in "abcdef":
        await add(stores[0], url=f"https://{part}.example/", origin=f"https://{part}.example")
    await stores[0].submit(new_job())
    await rendered(stores[0], new_worker())
    taken = await asyncio.gather(*(store.claim_deliveries(100, 60) for store in stores))
    ids = [due.id for part in taken for due in part]
    assert len(ids) == len(set(ids)) == 6


async def test_an_origin_holds_up_no_other(store: JobStore) -> None:
    """A claim takes four of one origin, and none of those that it leaves out."""
    for _ in range(6):
        await store.submit(hooked())
        await rendered(store, new_worker())
    await add(store, url="https://other.example/", origin="https://other.example")
    await store.submit(new_job())
    await rendered(store, new_worker())
    assert [due.origin for due in await take(store, without=(ORIGIN,))] == ["https://other.example"]
    assert len(await take(store)) == 4
    assert len(await take(store)) == 2
    assert await take(store) == []


async def test_a_keys_many_origins_hold_up_no_other_key(store: JobStore) -> None:
    """Origins are free, keys are not: each key has its turn, and no more under way than its share."""
    crowd, ann, bob = uuid7(), uuid7(), None
    for key, count in ((crowd, 8), (ann, 2), (bob, 1)):
        for index in range(count):
            origin = f"https://h{index}.{key}.example"
            await store.test_endpoint((await add(store, key, url=origin, origin=origin)).id)
    first = await store.claim_deliveries(3, 60, UnderWay(per_key=4))
    assert {due.key_id for due in first} == {crowd, ann, bob}
    held = UnderWay(keys={crowd: 3, ann: 1, bob: 1}, per_key=4)
    assert sorted([due.key_id == crowd for due in await store.claim_deliveries(100, 60, held)]) == [False, True]
    held = UnderWay(keys={crowd: 4}, per_key=4)
    assert await store.claim_deliveries(100, 60, held) == ()
    assert len(await take(store)) == 6


async def test_a_try_that_never_came_to_the_receiver_counts_for_nothing(store: JobStore) -> None:
    """Neither in the schedule nor against the endpoint."""
    endpoint = await add(store)
    await store.test_endpoint(endpoint.id)
    assert (await retried(store, msgspec.structs.replace(FAILED, counted=False), 0.0)).tries == 1
    assert (await store.endpoint(endpoint.id)).failing_since is None
    assert ((await retried(store)).tries, (await sole(store)).attempts) == (1, 2)


async def test_a_claim_looks_at_nothing_that_is_not_due(store: JobStore) -> None:
    """However many origins wait for a retry."""
    await crowded(store, uuid7(), 2_000, due=False)
    values: dict[str, Any] = {**to_claim(10, UnderWay()), "trying": "{}", "lease_s": 1}

    async def planned_by_postgres(connection: Any) -> str:
        await connection.execute("ANALYZE webhook_delivery")
        rows = await (await connection.execute("EXPLAIN " + postgres._CLAIM, values)).fetchall()
        return "\n".join(row["QUERY PLAN"] for row in rows)

    async def planned_by_sqlite(database: Any) -> str:
        more = {"without": "[]", "now": 1, "nobody": NOBODY}
        async with database._open.execute("EXPLAIN QUERY PLAN " + sqlite._DUE, values | more) as cursor:
            return "\n".join([row["detail"] async for row in cursor])

    if isinstance(store, PostgresStore):
        plan = await store.on_connection(planned_by_postgres)
        assert re.search(r"webhook_delivery_due.*\n.*Index Cond: .*next_at <= statement_timestamp\(\)", plan), plan
    else:
        plan = await store.on_database(planned_by_sqlite)  # type: ignore[attr-defined]
        assert "webhook_delivery_due (next_at<?)" in plan, plan
