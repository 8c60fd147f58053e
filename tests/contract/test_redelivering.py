"""Deliveries of a filter that are asked for anew, and what is told of endpoints, in any store."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import msgspec
import pytest

from jobstore.audit import AuditFilter
from jobstore.ids import uuid7
from jobstore.postgres import redelivering as postgres
from jobstore.postgres.store import PostgresStore
from jobstore.protocol import JobStore
from jobstore.sqlite import redelivering as sqlite
from jobstore.webhooks.errors import WebhookNotFoundError
from jobstore.webhooks.model import DeliveryFilter, DeliveryState, EndpointChanges, EventType
from tests.contract.hooking import DELIVERED, FAILED, LONG_S, add, crowded, take
from tests.contract.keying import TESTER
from tests.contract.making import new_job, new_worker, rendered

ALL_FAILED = DeliveryFilter(all_keys=True, state=DeliveryState.FAILED)


async def _failed(store: JobStore, count: int) -> None:
    """Take what is due; that many of it must be there, and fail for good."""
    due = await take(store)
    assert len(due) == count
    for one in due:
        await store.settle_delivery(one, FAILED, LONG_S)


async def test_what_a_filter_names_is_tried_anew_the_oldest_first(store: JobStore) -> None:
    """Within the bound; what is pending, or goes to a disabled endpoint, is neither counted nor taken."""
    first, other = await add(store), await add(store, uuid7())
    sent = [await store.test_endpoint(first.id) for _ in range(3)]
    await store.test_endpoint(other.id)
    await _failed(store, 4)
    await store.change_endpoint(other.id, EndpointChanges(disabled=True))
    await store.test_endpoint(first.id)
    assert await store.count_deliveries(ALL_FAILED) == 3
    assert await store.count_deliveries(ALL_FAILED, most=2) == 2
    assert await store.count_deliveries(msgspec.structs.replace(ALL_FAILED, all_keys=False, key_id=other.key_id)) == 0
    assert await store.redeliver_many(ALL_FAILED, 2, TESTER) == 2
    assert {one.id for one in await take(store)} >= {sent[0].id, sent[1].id}
    assert (await store.delivery(sent[2].id)).state is DeliveryState.FAILED
    [entry] = (await store.list_audit(AuditFilter(action="webhooks.redelivered"))).entries
    assert entry.details == {"state": "failed", "count": 2}


async def test_deliveries_are_told_apart_by_event(store: JobStore) -> None:
    """In lists and in counts."""
    endpoint = await add(store)
    await store.test_endpoint(endpoint.id)
    await store.submit(new_job())
    await rendered(store, new_worker())
    await _failed(store, 2)
    tests = msgspec.structs.replace(ALL_FAILED, type=EventType.TEST)
    assert [one.type for one in (await store.deliveries(tests)).deliveries] == ["webhook.test"]
    assert await store.count_deliveries(tests) == 1
    assert await store.redeliver_many(tests, 10) == 1
    assert [one.type for one in await take(store)] == ["webhook.test"]


async def test_how_endpoints_do_is_told_from_their_deliveries(store: JobStore) -> None:
    """The last success, and what failed since; one that got nothing is not told of."""
    endpoint, _other = await add(store), await add(store)
    await store.test_endpoint(endpoint.id)
    await _failed(store, 1)
    record = (await store.endpoint_records())[endpoint.id]
    assert (record.delivered_at, record.failures) == (None, 1)
    well = await store.test_endpoint(endpoint.id)
    [due] = await take(store)
    await store.settle_delivery(due, DELIVERED, LONG_S)
    record = (await store.endpoint_records())[endpoint.id]
    assert (record.delivered_at, record.failures) == ((await store.delivery(well.id)).delivered_at, 0)
    for _ in range(2):
        await store.test_endpoint(endpoint.id)
    await _failed(store, 2)
    assert (await store.endpoint_records())[endpoint.id].failures == 2
    assert len(await store.endpoint_records()) == 1


async def test_a_body_is_told_once_it_was_sent(store: JobStore) -> None:
    """As the receiver got it."""
    endpoint = await add(store)
    sent = await store.test_endpoint(endpoint.id)
    assert await store.delivery_body(sent.id) is None
    [due] = await take(store)
    await store.settle_delivery(due, msgspec.structs.replace(DELIVERED, payload='{"type":"webhook.test"}'), LONG_S)
    assert await store.delivery_body(sent.id) == '{"type":"webhook.test"}'
    with pytest.raises(WebhookNotFoundError):
        await store.delivery_body(uuid4())


async def test_failed_ones_are_counted_along_their_own_index(store: JobStore) -> None:
    """However many others there are."""
    await crowded(store, uuid7(), 2_000, due=False)

    async def planned_by_postgres(connection: Any) -> str:
        await connection.execute("UPDATE webhook_delivery SET state = 'delivered'")
        await connection.execute("ANALYZE webhook_delivery")
        query = postgres._asked(postgres._COUNT, ALL_FAILED)
        rows = await (await connection.execute("EXPLAIN " + query, postgres._values(ALL_FAILED, 1000))).fetchall()
        return "\n".join(row["QUERY PLAN"] for row in rows)

    async def planned_by_sqlite(database: Any) -> str:
        query = sqlite._asked(sqlite._COUNT, ALL_FAILED)
        async with database._open.execute("EXPLAIN QUERY PLAN " + query, sqlite._values(ALL_FAILED, 1000)) as cursor:
            return "\n".join([row["detail"] async for row in cursor])

    if isinstance(store, PostgresStore):
        plan = await store.on_connection(planned_by_postgres)
    else:
        plan = await store.on_database(planned_by_sqlite)  # type: ignore[attr-defined]
    assert "webhook_delivery_failed" in plan, plan
