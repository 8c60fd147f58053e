"""Webhooks in any store: deliveries are written with the event, tried under a lease, and given up in the end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from jobstore.ids import uuid7
from jobstore.job import JobState, JobWebhook, NewJob
from jobstore.postgres import deliveries as postgres
from jobstore.postgres.store import PostgresStore
from jobstore.protocol import JobStore
from jobstore.retention import Ages
from jobstore.rules.rows import NOBODY
from jobstore.sqlite import deliveries as sqlite
from jobstore.sqlite.database import now
from jobstore.webhooks.errors import TooManyWebhooksError, WebhookDisabledError, WebhookNotFoundError
from jobstore.webhooks.model import (
    ENDINGS,
    JOB_EVENTS,
    Delivery,
    DeliveryFilter,
    DeliveryState,
    Due,
    Endpoint,
    EndpointChanges,
    NewEndpoint,
    Tried,
    UnderWay,
)
from jobstore.webhooks.rows import to_claim
from tests.contract.making import claimed, failed, new_job, new_worker, rendered

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


async def test_a_job_without_hooks_leaves_nothing_in_the_outbox(store: JobStore) -> None:
    """Nor do events that a hook doesn't want, nor jobs of another key."""
    await add(store, uuid7())
    await add(store, events=("job.dead",))
    await store.submit(new_job())
    await rendered(store, new_worker())
    assert (await store.deliveries(DeliveryFilter(all_keys=True))).deliveries == ()
    assert await store.claim_deliveries(10, 60) == ()
    assert (await store.outstanding()).pending == 0


async def test_every_change_of_state_is_told_to_who_wants_it(store: JobStore) -> None:
    """From the submit to the end; the job's own hook and its key's endpoint both, in order."""
    key = uuid7()
    await add(store, key, events=JOB_EVENTS)
    job = await store.submit(hooked("job.started", "job.succeeded", key_id=key))
    await rendered(store, new_worker())
    assert sorted(await types_for(store, job.id)) == [
        "job.queued", "job.started", "job.started", "job.succeeded", "job.succeeded",
    ]  # fmt: skip
    assert {delivery.key_id for delivery in (await store.deliveries(DeliveryFilter(key_id=key))).deliveries} == {key}
    assert (await store.get(job.id)).webhook == JobWebhook(
        url=URL, origin=ORIGIN, events=("job.started", "job.succeeded"), signed=True
    )


async def _fail(store: JobStore, _job: NewJob) -> None:
    await failed(store, new_worker())


async def _die(store: JobStore, _job: NewJob) -> None:
    lease = await claimed(store, new_worker())
    await store.fail(lease.token, error=_error(), retry_in_s=0)


async def _cancel(store: JobStore, job: NewJob) -> None:
    await store.cancel(job.id)


async def _stop(store: JobStore, job: NewJob) -> None:
    lease = await claimed(store, new_worker())
    await store.cancel(job.id)
    await store.canceled(lease.token)


async def _hit(store: JobStore, _job: NewJob) -> None:
    await rendered(store, new_worker())


def _error() -> Any:
    from jobstore.job import JobError

    return JobError(code="render_failed", message="it broke")


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (_fail, "job.failed"),
        (_die, "job.dead"),
        (_cancel, "job.canceled"),
        (_stop, "job.canceled"),
        (_hit, "job.succeeded"),
    ],
)
async def test_an_end_is_told_on_whatever_path(
    store: JobStore, end: Callable[[JobStore, NewJob], Awaitable[None]], told: str
) -> None:
    """By the store's one statement or by the rules: the trigger sees all."""
    new = hooked(max_attempts=1)
    await store.submit(new)
    await end(store, new)
    assert await types_for(store, new.id) == [told]


async def test_hits_and_joined_jobs_are_told_too(store: JobStore) -> None:
    """Each by its own hook."""
    first, joined = hooked("f"), hooked()
    first = msgspec.structs.replace(first, fingerprint="same")
    joined = msgspec.structs.replace(joined, fingerprint="same")
    await store.submit(first)
    assert (await store.submit(joined)).leader_id == first.id
    done = await rendered(store, new_worker())
    hit = hooked()
    assert (await store.submit(hit, done.pictures)).state is JobState.SUCCEEDED
    assert await types_for(store, joined.id) == ["job.succeeded"]
    assert await types_for(store, hit.id) == ["job.succeeded"]
    assert await types_for(store, first.id) == []


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


async def test_a_keys_outbox_is_bounded(store: JobStore) -> None:
    """What is beyond is written as failed with the reason; another key's is not touched, and it can be asked for."""
    crowd = uuid7()
    await crowded(store, crowd, 9_999, due=True)
    for key in (crowd, crowd, None):
        await store.submit(hooked("job.queued", key_id=key))
    told = {DeliveryState.PENDING: 0, DeliveryState.FAILED: 0}
    failed_ones = (await store.deliveries(DeliveryFilter(key_id=crowd, state=DeliveryState.FAILED))).deliveries
    for key in (crowd, None):
        for delivery in (await store.deliveries(DeliveryFilter(key_id=key, limit=2))).deliveries:
            told[delivery.state] += delivery.job_id is not None
    assert told == {DeliveryState.PENDING: 2, DeliveryState.FAILED: 1}
    assert [found.error for found in failed_ones] == ["too many deliveries of its key were pending"]
    assert {due.key_id for due in await store.claim_deliveries(2, 60)} == {crowd, None}
    assert (await store.redeliver(failed_ones[0].id)).state is DeliveryState.PENDING


async def test_a_try_that_never_came_to_the_receiver_counts_for_nothing(store: JobStore) -> None:
    """Neither in the schedule nor against the endpoint."""
    endpoint = await add(store)
    await store.test_endpoint(endpoint.id)
    assert (await retried(store, msgspec.structs.replace(FAILED, counted=False), 0.0)).tries == 1
    assert (await store.endpoint(endpoint.id)).failing_since is None
    assert ((await retried(store)).tries, (await sole(store)).attempts) == (1, 2)


async def test_a_rotated_secret_signs_beside_the_new_one_for_a_time(store: JobStore) -> None:
    """Then the new one signs alone."""
    endpoint = await add(store)
    rotated = await store.rotate_endpoint(endpoint.id, "whsec_dHdv", keep_s=3600)
    assert rotated.previous_until is not None
    await store.test_endpoint(endpoint.id)
    assert (await retried(store)).secrets == ("whsec_dHdv", "whsec_b25l")
    await store.rotate_endpoint(endpoint.id, "whsec_dGhyZWU=", keep_s=0)
    assert (await retried(store)).secrets == ("whsec_dGhyZWU=",)


async def test_410_disables_and_gives_the_others_up(store: JobStore) -> None:
    """Enabled again, it hears of what comes then."""
    endpoint = await add(store)
    for _ in range(2):
        await store.test_endpoint(endpoint.id)
    first, _other = await take(store)
    gone = msgspec.structs.replace(FAILED, status=410, gone=True)
    disabled = await store.settle_delivery(first, gone, LONG_S)
    assert disabled is not None
    assert (disabled.id, "410" in disabled.reason) == (endpoint.id, True)
    assert {d.state for d in (await store.deliveries(DeliveryFilter())).deliveries} == {DeliveryState.FAILED}
    await store.submit(new_job())
    await rendered(store, new_worker())
    assert await take(store) == []
    enabled = await store.change_endpoint(endpoint.id, EndpointChanges(disabled=False))
    assert (enabled.disabled_at, enabled.reason, enabled.failing_since) == (None, "", None)
    await store.submit(new_job())
    await rendered(store, new_worker())
    assert len(await take(store)) == 1


async def test_an_endpoint_that_only_fails_is_disabled(store: JobStore) -> None:
    """After the time given, counted from its first failure since a success."""
    endpoint = await add(store)
    await store.test_endpoint(endpoint.id)
    await retried(store)
    assert (await store.endpoint(endpoint.id)).failing_since is not None
    await retried(store, DELIVERED)
    assert (await store.endpoint(endpoint.id)).failing_since is None
    await store.test_endpoint(endpoint.id)
    [due] = await take(store)
    assert await store.settle_delivery(due, msgspec.structs.replace(FAILED, retry_in_s=0.0), LONG_S) is None
    [due] = await take(store)
    disabled = await store.settle_delivery(due, msgspec.structs.replace(FAILED, retry_in_s=0.0), 0.0)
    assert disabled is not None
    assert "failures" in disabled.reason
    with pytest.raises(WebhookDisabledError):
        await store.redeliver(due.id)
    assert await take(store) == []
    await store.change_endpoint(endpoint.id, EndpointChanges(disabled=False))
    await store.redeliver(due.id)
    assert [again.id for again in await take(store)] == [due.id]


async def test_endpoints_are_kept_changed_and_forgotten(store: JobStore) -> None:
    """Each key has its own, within a bound; deleting gives pending deliveries up."""
    key = uuid7()
    mine, other = await add(store, key, description="mine"), await add(store)
    assert await store.endpoints(key) == (mine,)
    assert await store.endpoints() == (other,)
    assert set(await store.endpoints(all_keys=True)) == {mine, other}
    with pytest.raises(TooManyWebhooksError):
        await store.add_endpoint(NewEndpoint(key_id=key, url=URL, origin=ORIGIN, secret="s"), most=1)
    await store.test_endpoint(mine.id)
    moved = EndpointChanges(url="https://b.example/x", origin="https://b.example", events=("job.dead",))
    changed = await store.change_endpoint(mine.id, moved)
    assert (changed.url, changed.events, changed.description) == ("https://b.example/x", ("job.dead",), "mine")
    assert [(due.url, due.origin) for due in await take(store)] == [("https://b.example/x", "https://b.example")]
    off = await store.change_endpoint(mine.id, EndpointChanges(disabled=True))
    assert (off.reason, off.disabled_at is not None) == ("on request", True)
    await store.test_endpoint(mine.id)
    await store.delete_endpoint(mine.id)
    deliveries = (await store.deliveries(DeliveryFilter(key_id=key))).deliveries
    assert {(delivery.type, delivery.state) for delivery in deliveries} == {("webhook.test", DeliveryState.FAILED)}
    await store.redeliver(deliveries[0].id)
    assert [due.url for due in await take(store)] == [None]
    for call in (store.endpoint, store.delete_endpoint, store.test_endpoint, store.delivery, store.redeliver):
        with pytest.raises(WebhookNotFoundError):
            await call(uuid4())
    with pytest.raises(WebhookNotFoundError):
        await store.rotate_endpoint(mine.id, "s", 1)
    with pytest.raises(WebhookNotFoundError):
        await store.change_endpoint(mine.id, EndpointChanges())


async def test_deliveries_are_listed_in_pages(store: JobStore) -> None:
    """Newest first, by state, job and endpoint."""
    endpoint = await add(store)
    for _ in range(3):
        await store.test_endpoint(endpoint.id)
    job = await store.submit(hooked())
    await rendered(store, new_worker())
    first = await store.deliveries(DeliveryFilter(limit=3))
    rest = await store.deliveries(DeliveryFilter(limit=3, cursor=first.next_cursor))
    assert (len(first.deliveries), len(rest.deliveries), rest.next_cursor) == (3, 2, None)
    assert len({delivery.id for delivery in (*first.deliveries, *rest.deliveries)}) == 5
    assert len((await store.deliveries(DeliveryFilter(job_id=job.id))).deliveries) == 2
    assert len((await store.deliveries(DeliveryFilter(endpoint_id=endpoint.id))).deliveries) == 4
    assert (await store.deliveries(DeliveryFilter(state=DeliveryState.FAILED))).deliveries == ()
    assert (await store.deliveries(DeliveryFilter(key_id=uuid7()))).deliveries == ()
    with pytest.raises(ValueError, match="cursor"):
        await store.deliveries(DeliveryFilter(cursor="?"))


async def test_a_redriven_job_keeps_its_webhook(store: JobStore, archive_at_once: None) -> None:
    """Also when it was put away in between."""
    new = hooked(max_attempts=1)
    await store.submit(new)
    await failed(store, new_worker())
    await store.purge(Ages())
    [due] = await take(store)
    assert (due.url, due.type) == (URL, "job.failed")
    await store.retry(new.id)
    await rendered(store, new_worker())
    assert await types_for(store, new.id) == ["job.failed", "job.succeeded"]


async def test_old_deliveries_are_deleted(store: JobStore) -> None:
    """Those that are over."""
    endpoint = await add(store)
    for _ in range(2):
        await store.test_endpoint(endpoint.id)
    [one, _waiting] = await take(store)
    await store.settle_delivery(one, DELIVERED, LONG_S)
    assert (await store.purge(Ages(deliveries=3600.0))).deliveries == 0
    assert (await store.purge(Ages(deliveries=0.0))).deliveries == 1
    assert (await sole(store)).state is DeliveryState.PENDING


async def test_an_event_that_is_undone_leaves_no_delivery(store: JobStore) -> None:
    """The outbox is of the event's own transaction."""
    new = hooked("job.queued")

    class UndoneError(Exception):
        """What breaks the transaction off."""

    async def work(rows: Any) -> None:
        from jobstore.rules import requests

        await requests.accept(rows, new, ())
        raise UndoneError

    with pytest.raises(UndoneError):
        await store.in_transaction(work)  # type: ignore[attr-defined]
    assert (await store.deliveries(DeliveryFilter(all_keys=True))).deliveries == ()


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
