"""What is written down in the audit log is written with the act: the one can't be without the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from jobstore.audit import Actor, AuditFilter
from jobstore.job import JobState
from jobstore.operating.jobs import JobFilter
from jobstore.protocol import JobStore
from jobstore.webhooks.model import DeliveryFilter, DeliveryState, EndpointChanges, NewEndpoint
from tests.contract.hooking import FAILED, LONG_S, ORIGIN, URL, add, take
from tests.contract.keying import TESTER
from tests.contract.making import failed, new_job, new_quota, new_worker

NOBODY_CAN_WRITE = Actor(name="\ud800")
"""Half a character: no database takes it, so that the note fails after the act."""


async def _standing(store: JobStore) -> tuple[Any, ...]:
    """All that the acts below change."""
    quotas = sorted((status.quota.owner, status.quota.most) for status in await store.quotas())
    paused = [(lane.name, lane.paused_at is not None, lane.reason) for lane in await store.lanes()]
    letters = (await store.count_letters(JobFilter())).count
    hooks = await store.endpoints(all_keys=True)
    sent = (await store.deliveries(DeliveryFilter(all_keys=True))).deliveries
    return quotas, paused, letters, hooks, sent, len((await store.list_audit()).entries)


async def _prepared(store: JobStore) -> None:
    await store.create_quota(new_quota(most=1))
    await store.submit(new_job(max_attempts=1))
    await failed(store, new_worker())
    await store.pause_lane("shut", "a driver")
    endpoint = await add(store)
    await store.test_endpoint(endpoint.id)
    [due] = await take(store)
    await store.settle_delivery(due, FAILED, LONG_S)
    await store.submit(new_job())


async def _create(store: JobStore, by: Actor) -> None:
    await store.create_quota(new_quota("other", 2), by)


async def _change(store: JobStore, by: Actor) -> None:
    await store.change_quota((await store.quotas())[0].quota.id, Decimal(7), by)


async def _delete(store: JobStore, by: Actor) -> None:
    await store.delete_quota((await store.quotas())[0].quota.id, by)


async def _pause(store: JobStore, by: Actor) -> None:
    await store.pause_lane("default", "why not", by)


async def _resume(store: JobStore, by: Actor) -> None:
    await store.resume_lane("shut", by)


async def _redrive(store: JobStore, by: Actor) -> None:
    await store.redrive(JobFilter(), by=by)


async def _hook(store: JobStore) -> UUID:
    [endpoint] = await store.endpoints()
    return endpoint.id


async def _add_hook(store: JobStore, by: Actor) -> None:
    await store.add_endpoint(NewEndpoint(key_id=None, url=URL, origin=ORIGIN, secret="whsec_b25l"), 10, by)


async def _change_hook(store: JobStore, by: Actor) -> None:
    await store.change_endpoint(await _hook(store), EndpointChanges(disabled=True), by)


async def _rotate_hook(store: JobStore, by: Actor) -> None:
    await store.rotate_endpoint(await _hook(store), "whsec_dHdv", 60, by)


async def _delete_hook(store: JobStore, by: Actor) -> None:
    await store.delete_endpoint(await _hook(store), by)


async def _redeliver(store: JobStore, by: Actor) -> None:
    await store.redeliver_many(DeliveryFilter(all_keys=True, state=DeliveryState.FAILED), 10, by)


async def _redeliver_one(store: JobStore, by: Actor) -> None:
    [delivery] = (await store.deliveries(DeliveryFilter(all_keys=True, state=DeliveryState.FAILED))).deliveries
    await store.redeliver(delivery.id, by)


async def _test_hook(store: JobStore, by: Actor) -> None:
    await store.test_endpoint(await _hook(store), by)


async def _retry(store: JobStore, by: Actor) -> None:
    [dead] = (await store.list_jobs(JobFilter(states=(JobState.DEAD, JobState.FAILED)))).jobs
    await store.retry(dead.id, by)


async def _cancel(store: JobStore, by: Actor) -> None:
    [job] = (await store.list_jobs(JobFilter(states=(JobState.QUEUED,)))).jobs
    for _ in range(2):
        await store.cancel(job.id, by)


@pytest.mark.parametrize(
    ("act", "action"),
    [
        (_create, "quota.created"),
        (_change, "quota.changed"),
        (_delete, "quota.deleted"),
        (_pause, "lane.paused"),
        (_resume, "lane.resumed"),
        (_redrive, "jobs.redriven"),
        (_add_hook, "webhook.created"),
        (_change_hook, "webhook.changed"),
        (_rotate_hook, "webhook.rotated"),
        (_delete_hook, "webhook.deleted"),
        (_redeliver, "webhooks.redelivered"),
        (_redeliver_one, "webhooks.redelivered"),
        (_test_hook, "webhook.tested"),
        (_retry, "jobs.redriven"),
        (_cancel, "jobs.canceled"),
    ],
)
async def test_an_act_without_its_note_cannot_be(
    store: JobStore, act: Callable[[JobStore, Actor], Awaitable[None]], action: str
) -> None:
    """Where the note can't be written, nothing has happened; where it can, both have."""
    await _prepared(store)
    before = await _standing(store)
    queued = sum(lane.count for lane in await store.counts() if lane.state is JobState.QUEUED)
    with pytest.raises(UnicodeEncodeError):
        await act(store, NOBODY_CAN_WRITE)
    assert await _standing(store) == before
    assert sum(lane.count for lane in await store.counts() if lane.state is JobState.QUEUED) == queued
    await act(store, TESTER)
    [entry] = (await store.list_audit(AuditFilter(action=action))).entries
    assert (entry.actor, entry.key_id) == (TESTER.name, TESTER.key_id)


async def test_changes_of_a_quota_at_once_are_told_as_a_chain(stores: tuple[JobStore, ...]) -> None:
    """What one entry says it was is what the entry before says it became, however many change it at once."""
    quota = await stores[0].create_quota(new_quota(most=1), TESTER)
    await asyncio.gather(
        *(stores[number % 3].change_quota(quota.id, Decimal(number), TESTER) for number in range(2, 14))
    )
    entries = (await stores[0].list_audit(AuditFilter(action="quota.changed"))).entries
    limits = [entry.details["limit"] for entry in entries]
    assert len(limits) == 12
    assert all(earlier["to"] == later["from"] for later, earlier in pairwise(limits))
    assert limits[-1]["from"] == "1"
    assert limits[0]["to"] == f"{(await stores[0].quotas())[0].quota.most:f}"


async def test_what_changes_nothing_is_not_written_down(store: JobStore) -> None:
    """A limit that is so already, a lane that isn't paused, a quota that isn't there."""
    quota = await store.create_quota(new_quota(most=1))
    await store.change_quota(quota.id, Decimal("1.000"), TESTER)
    await store.resume_lane("default", TESTER)
    await store.change_endpoint((await add(store)).id, EndpointChanges(), TESTER)
    await store.redeliver_many(DeliveryFilter(all_keys=True), 10, TESTER)
    await store.delete_quota(quota.id)
    assert not await store.delete_quota(quota.id, TESTER)
    assert (await store.list_audit()).entries == ()
