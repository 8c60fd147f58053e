"""A start deadline bounds the wait before the first start, and nothing after it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from jobstore.ids import uuid7
from jobstore.job import JobError, JobState
from jobstore.ledger import Balance
from jobstore.protocol import JobStore
from tests.contract.making import NOTHING, PRICE, claimed, new_job, new_worker, rendered, states_told, sweep

PASSED_S = -1.0  # a deadline that has passed at the submit
ERROR = JobError(code="render_failed", message="it broke")


async def test_a_start_deadline_is_counted_from_the_submit(store: JobStore) -> None:
    """And told in the job; without one there is none."""
    job = await store.submit(new_job(start_deadline_s=90))
    assert job.start_by == job.created_at + timedelta(seconds=90)
    assert job.deadline_at is None
    assert await store.get(job.id) == job
    assert (await store.submit(new_job())).start_by is None


async def test_a_job_that_was_never_started_fails_uncharged(store: JobStore) -> None:
    """With the error of a deadline; one whose time has not come waits on."""
    key_id = uuid7()
    late = await store.submit(new_job(start_deadline_s=PASSED_S, key_id=key_id))
    other = await store.submit(new_job(start_deadline_s=3600))
    assert (await sweep(store)).expired == 1
    now = await store.get(late.id)
    assert now.error is not None
    assert (now.state, now.error.code, now.attempts) == (JobState.FAILED, "deadline_exceeded", 0)
    assert (now.reserved, now.charged) == (NOTHING, NOTHING)
    assert await store.balance(key_id, "USD") == Balance()
    assert await store.usage(late.id) == ()
    assert await states_told(store, late.id) == ["queued", "failed"]
    assert (await store.get(other.id)).state is JobState.QUEUED
    assert (await sweep(store)).expired == 0


async def test_a_late_job_is_not_claimed_before_the_sweep_fails_it(store: JobStore) -> None:
    """Neither as the head of its lane nor as a batch mate; the next job is."""
    worker = new_worker()
    for width in (64, 128):
        await store.submit(new_job(width=width, start_deadline_s=PASSED_S))
        await store.submit(new_job(width=width, deadline_s=PASSED_S))
    good = await store.submit(new_job(width=64))
    lease = await store.claim(worker, ["default"], prefer="128")
    assert lease is not None
    assert lease.job.id == good.id
    assert await store.claim(worker, ["default"]) is None
    assert (await sweep(store)).expired == 4


async def test_it_does_not_apply_once_the_job_has_started(store: JobStore) -> None:
    """However the job comes back to the queue: handed back, tried again, or lost."""
    worker = new_worker()
    jobs = [await store.submit(new_job(start_deadline_s=2)) for _ in range(3)]
    leases = [await claimed(store, worker) for _ in jobs]
    await asyncio.sleep(2.1)
    await store.release(leases[0].token)
    await store.fail(leases[1].token, ERROR, retry_in_s=0)
    swept = await sweep(store, lease_s=0)
    assert (swept.rescued, swept.expired) == (1, 0)
    assert (await sweep(store)).expired == 0
    assert {(await store.get(job.id)).state for job in jobs} == {JobState.QUEUED}
    for job in jobs:
        assert (await rendered(store, worker)).id == job.id


async def test_a_redriven_job_is_free_of_it(store: JobStore) -> None:
    """It would fail again at once."""
    job = await store.submit(new_job(start_deadline_s=PASSED_S))
    await sweep(store)
    assert (await store.retry(job.id)).job.start_by is None
    assert (await sweep(store)).expired == 0
    assert (await rendered(store, new_worker())).id == job.id


async def test_it_is_each_jobs_own(store: JobStore) -> None:
    """Whoever joined a late job takes its place in the queue, and its price."""
    late = await store.submit(new_job("f", start_deadline_s=PASSED_S))
    heir = await store.submit(new_job("f"))
    also_late = await store.submit(new_job("f", start_deadline_s=PASSED_S))
    swept = await sweep(store)
    assert swept.expired == 2
    assert {(await store.get(job.id)).state for job in (late, also_late)} == {JobState.FAILED}
    waiting = await store.get(heir.id)
    assert (waiting.state, waiting.leader_id, waiting.reserved) == (JobState.QUEUED, None, PRICE)
    assert (await rendered(store, new_worker())).id == heir.id
