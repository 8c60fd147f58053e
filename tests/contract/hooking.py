"""Endpoints, jobs with a webhook of their own, and an outbox, to be put to any store."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from jobstore.job import JobWebhook, NewJob
from jobstore.postgres.store import PostgresStore
from jobstore.protocol import JobStore
from jobstore.sqlite.database import now
from jobstore.webhooks.model import (
    ENDINGS,
    Delivery,
    DeliveryFilter,
    Due,
    Endpoint,
    NewEndpoint,
    Tried,
    UnderWay,
)
from tests.contract.making import new_job

URL = "https://hooks.example/a"
ORIGIN = "https://hooks.example"
LONG_S = 1e9
DELIVERED = Tried(delivered=True, status=200, payload="{}")
FAILED = Tried(delivered=False, status=500, error="answered 500", payload="{}")


async def add(store: JobStore, key_id: UUID | None = None, **fields: Any) -> Endpoint:
    """An endpoint of the key."""
    known: dict[str, Any] = {"url": URL, "origin": ORIGIN, "secret": "whsec_b25l", **fields}
    return await store.add_endpoint(NewEndpoint(key_id=key_id, **known), most=10)


def hooked(*events: str, **fields: Any) -> NewJob:
    """A job with a webhook of its own."""
    hook = JobWebhook(url=URL, origin=ORIGIN, events=events or ENDINGS, signed=True)
    return msgspec.structs.replace(new_job(**fields), webhook=hook, webhook_secret="whsec_b3du")


async def crowded(store: JobStore, key_id: UUID | None, count: int, *, due: bool) -> None:
    """Put many deliveries into the outbox at once, each to an origin of its own."""
    text = "webhook_delivery (id, key_id, origin, type, next_at, created_at)"
    if isinstance(store, PostgresStore):

        async def write(connection: Any) -> None:
            at = f"clock_timestamp() + interval '{0 if due else 1} h'"
            query = (
                f"INSERT INTO {text} SELECT gen_random_uuid(), %(key)s, 'https://h' || i, 'job.failed', {at}, "
                "clock_timestamp() FROM generate_series(1, %(count)s) AS i"
            )
            await connection.execute(query, {"key": key_id, "count": count})

        await store.on_connection(write)
    else:

        async def insert(database: Any) -> None:
            query = (
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count) "
                f"INSERT INTO {text} SELECT printf('%08x-0000-4000-8000-000000000000', i), :key, 'https://h' || i, "
                "'job.failed', :at, :now FROM n"
            )
            at = now() + (0 if due else 3_600_000_000)
            await database.execute(query, {"key": key_id, "count": count, "at": at, "now": now()})

        await store.on_database(insert)  # type: ignore[attr-defined]


async def types_for(store: JobStore, job_id: UUID) -> list[str]:
    """What is in the outbox for a job, in order."""
    page = await store.deliveries(DeliveryFilter(all_keys=True, job_id=job_id))
    return [delivery.type for delivery in reversed(page.deliveries)]


async def sole(store: JobStore) -> Delivery:
    """The only delivery that there is."""
    [delivery] = (await store.deliveries(DeliveryFilter(all_keys=True))).deliveries
    return delivery


async def take(store: JobStore, lease_s: float = 60, without: tuple[str, ...] = ()) -> list[Due]:
    """All that is due."""
    return list(await store.claim_deliveries(100, lease_s, UnderWay(origins=without)))


async def retried(store: JobStore, tried: Tried = FAILED, disable_after_s: float = LONG_S) -> Due:
    """Claim the only one that is due, and let it be due again at once."""
    [due] = await take(store)
    await store.settle_delivery(due, msgspec.structs.replace(tried, retry_in_s=0.0), disable_after_s)
    return due
