"""The outbox of webhooks in any store: deliveries are written with the event, and kept within bounds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from jobstore.ids import uuid7
from jobstore.job import JobState, JobWebhook, NewJob
from jobstore.protocol import JobStore
from jobstore.retention import Ages
from jobstore.webhooks.model import (
    JOB_EVENTS,
    DeliveryFilter,
    DeliveryState,
)
from tests.contract.hooking import (
    DELIVERED,
    LONG_S,
    ORIGIN,
    URL,
    add,
    crowded,
    hooked,
    sole,
    take,
    types_for,
)
from tests.contract.making import claimed, failed, new_job, new_worker, rendered


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
