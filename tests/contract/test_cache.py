"""Repeats and joins: one render serves all who asked for the same pixels."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from jobstore.job import CacheMode, CacheOutcome, JobError, JobState, PictureFormat
from jobstore.protocol import JobStore
from tests.contract.making import (
    NOTHING,
    PRICE,
    claimed,
    new_job,
    new_worker,
    pictures,
    rendered,
    result,
    states_told,
    sweep,
)


async def test_a_render_is_remembered_and_a_hit_costs_nothing(store: JobStore) -> None:
    """Found by fingerprint, and by the seedless one; a hit is a job that has ended."""
    first = await store.submit(new_job("f"))
    done = await rendered(store, new_worker())
    found = await store.find_cached("f")
    assert found is not None
    assert found.pictures == done.pictures
    assert await store.find_cached_any("seedless-f") == found
    hit = await store.submit(new_job("f"), found.pictures)
    assert (hit.state, hit.cache, hit.reserved, hit.charged) == (
        JobState.SUCCEEDED,
        CacheOutcome.HIT,
        NOTHING,
        NOTHING,
    )
    assert hit.pictures == done.pictures
    assert await store.get(hit.id) == hit
    assert [event.kind for event in await store.events(hit.id)] == ["done"]
    assert first.id != hit.id


async def test_a_purged_picture_is_forgotten(store: JobStore) -> None:
    """Forgetting twice is no error."""
    await store.submit(new_job("f"))
    await rendered(store, new_worker())
    for _ in range(2):
        await store.forget_cached("f")
        assert await store.find_cached("f") is None


async def test_the_newest_of_any_seed_is_found(store: JobStore) -> None:
    """And a refreshed one replaces."""
    worker = new_worker()
    for _ in range(2):
        await store.submit(new_job("f", cache=CacheMode.REFRESH))
        done = await rendered(store, worker)
    found = await store.find_cached_any("seedless-f")
    assert found is not None
    assert found.pictures == done.pictures


async def test_off_neither_reads_nor_writes_nor_is_joined(store: JobStore) -> None:
    """Each renders for itself."""
    jobs = [await store.submit(new_job("f", cache=CacheMode.OFF)) for _ in range(2)]
    third = await store.submit(new_job("f"))
    assert {job.cache for job in (*jobs, third)} == {CacheOutcome.MISS}
    worker = new_worker()
    await rendered(store, worker)
    assert await store.find_cached("f") is None


async def test_refresh_renders_anew_beside_one_in_flight(store: JobStore) -> None:
    """It joins nobody; others may join it when it is alone."""
    await store.submit(new_job("f"))
    assert (await store.submit(new_job("f", cache=CacheMode.REFRESH))).cache is CacheOutcome.MISS
    alone = await store.submit(new_job("g", cache=CacheMode.REFRESH))
    assert (await store.submit(new_job("g"))).leader_id == alone.id


async def test_a_joined_job_follows_and_gets_the_same_pictures(store: JobStore) -> None:
    """One render, one charge, two jobs with their own events."""
    worker = new_worker()
    leader = await store.submit(new_job("f"))
    early = await store.submit(new_job("f"))
    assert (early.cache, early.leader_id, early.reserved) == (CacheOutcome.JOINED, leader.id, NOTHING)
    lease = await claimed(store, worker)
    late = await store.submit(new_job("f"))
    assert (lease.job.id, late.state) == (leader.id, JobState.RUNNING)
    assert (await store.get(early.id)).state is JobState.RUNNING
    assert await store.claim(worker, ["default"]) is None
    settled = await store.finish(lease.token, result(lease))
    assert settled is not None
    for joined in (early, late):
        done = await store.get(joined.id)
        assert (done.state, done.charged, done.cache) == (JobState.SUCCEEDED, NOTHING, CacheOutcome.JOINED)
        assert done.pictures == settled.job.pictures
    assert await states_told(store, early.id) == ["queued", "running", "succeeded"]
    assert await states_told(store, late.id) == ["running", "succeeded"]


async def test_a_joined_job_of_another_format_is_answered_afterwards(store: JobStore) -> None:
    """It goes back to the queue, and a worker that finds the picture charges nothing."""
    worker = new_worker()
    await store.submit(new_job("f"))
    other = await store.submit(new_job("f", format=PictureFormat.JPEG))
    lease = await claimed(store, worker)
    settled = await store.finish(lease.token, result(lease))
    assert settled is not None
    assert settled.ring == ("default",)
    lease = await claimed(store, worker)
    assert (lease.job.id, lease.job.leader_id) == (other.id, None)
    settled = await store.finish(lease.token, result(lease, CacheOutcome.HIT))
    assert settled is not None
    assert (settled.job.cache, settled.job.charged, settled.job.reserved) == (CacheOutcome.HIT, NOTHING, NOTHING)


async def test_when_a_waiting_leader_is_canceled_the_first_that_joined_takes_its_place(store: JobStore) -> None:
    """Its place in the queue and its price; the others follow the new one."""
    leader, heir, other = [await store.submit(new_job("f")) for _ in range(3)]
    behind = await store.submit(new_job())
    assert (await store.cancel(leader.id)).job.state is JobState.CANCELED
    assert (await store.get(heir.id)).reserved == PRICE
    assert (await store.get(other.id)).leader_id == heir.id
    worker = new_worker()
    done = await rendered(store, worker)
    assert (done.id, done.charged) == (heir.id, PRICE)
    assert (await store.get(other.id)).charged == NOTHING
    assert (await rendered(store, worker)).id == behind.id


async def test_when_a_running_leader_is_canceled_its_lease_goes_over(store: JobStore) -> None:
    """The render goes on under the same token; the beat tells the new job."""
    worker = new_worker()
    leader, heir = [await store.submit(new_job("f")) for _ in range(2)]
    lease = await claimed(store, worker)
    canceled = (await store.cancel(leader.id)).job
    assert (canceled.state, canceled.reserved, canceled.charged) == (JobState.CANCELED, NOTHING, NOTHING)
    [held] = (await store.beat(worker)).held
    assert (held.token, held.job_id, held.cancel_requested) == (lease.token, heir.id, False)
    settled = await store.finish(lease.token, result(lease))
    assert settled is not None
    assert (settled.job.id, settled.job.charged, settled.job.attempts) == (heir.id, PRICE, 1)
    assert (await store.get(leader.id)).pictures == ()


async def test_a_lease_goes_over_to_one_that_wants_the_same_file_format(store: JobStore) -> None:
    """Not to the first that joined, whose format the render does not have; that one is answered afterwards."""
    worker = new_worker()
    leader = await store.submit(new_job("f"))
    jpeg = await store.submit(new_job("f", format=PictureFormat.JPEG))
    png = await store.submit(new_job("f"))
    lease = await claimed(store, worker)
    await store.cancel(leader.id)
    [held] = (await store.beat(worker)).held
    assert (held.token, held.job_id) == (lease.token, png.id)
    settled = await store.finish(lease.token, result(lease))
    assert settled is not None
    assert (settled.job.charged, settled.ring) == (PRICE, ("default",))
    assert (await store.get(jpeg.id)).state is JobState.QUEUED


async def test_a_render_that_nobody_wants_in_its_format_ends(store: JobStore) -> None:
    """Those that joined are rendered anew; the old token is worth nothing."""
    worker = new_worker()
    leader = await store.submit(new_job("f"))
    jpegs = [await store.submit(new_job("f", format=PictureFormat.JPEG)) for _ in range(2)]
    lease = await claimed(store, worker)
    settled = await store.cancel(leader.id)
    assert (settled.job.state, settled.ring) == (JobState.CANCELED, ("default",))
    assert (await store.beat(worker)).held == ()
    assert await store.finish(lease.token, result(lease)) is None
    assert (await store.get(jpegs[0].id)).attempts == 0
    assert (await rendered(store, worker)).id == jpegs[0].id
    assert (await store.get(jpegs[1].id)).state is JobState.SUCCEEDED


async def test_the_deadline_of_a_canceled_leader_is_not_its_heirs(store: JobStore) -> None:
    """The worker stops for it; the heir is queued anew, with no attempt counted."""
    worker = new_worker()
    leader = await store.submit(new_job("f", deadline_s=1))
    heir = await store.submit(new_job("f"))
    lease = await claimed(store, worker)
    await store.cancel(leader.id)
    settled = await store.fail(lease.token, JobError(code="deadline_exceeded", message="late"))
    assert settled is not None
    assert (settled.job.id, settled.job.state, settled.job.attempts) == (heir.id, JobState.QUEUED, 0)
    assert (await rendered(store, worker)).id == heir.id


async def test_an_heirs_own_deadline_ends_it_though_its_worker_does_not(store: JobStore) -> None:
    """The sweep does, and the lease is gone."""
    worker = new_worker()
    leader = await store.submit(new_job("f"))
    heir = await store.submit(new_job("f", deadline_s=0.01))
    lease = await claimed(store, worker)
    await store.cancel(leader.id)
    swept = await sweep(store)
    while not swept.expired:
        await asyncio.sleep(0.1)
        swept = await sweep(store)
    assert (await store.get(heir.id)).state is JobState.FAILED
    assert await store.finish(lease.token, result(lease)) is None


async def test_canceling_a_joined_job_leaves_the_render_alone(store: JobStore) -> None:
    """Waiting or running."""
    leader, one, two = [await store.submit(new_job("f")) for _ in range(3)]
    await store.cancel(one.id)
    worker = new_worker()
    lease = await claimed(store, worker)
    assert (await store.cancel(two.id)).job.state is JobState.CANCELED
    [held] = (await store.beat(worker)).held
    assert (held.job_id, held.cancel_requested) == (leader.id, False)
    settled = await store.finish(lease.token, result(lease))
    assert settled is not None
    assert {(await store.get(job.id)).state for job in (one, two)} == {JobState.CANCELED}


async def test_a_failed_render_fails_all_that_wait_for_it(store: JobStore) -> None:
    """They would meet the same error."""
    leader, joined = [await store.submit(new_job("f")) for _ in range(2)]
    lease = await claimed(store, new_worker())
    await store.fail(lease.token, JobError(code="bad_output", message="not a number"))
    jobs = [await store.get(job.id) for job in (leader, joined)]
    assert [job.state for job in jobs] == [JobState.FAILED] * 2
    assert jobs[0].error == jobs[1].error


async def test_a_leaders_own_deadline_is_not_the_others(store: JobStore) -> None:
    """They go back to the queue at their own price."""
    worker = new_worker()
    await store.submit(new_job("f", deadline_s=0.5))
    joined = await store.submit(new_job("f"))
    lease = await claimed(store, worker)
    settled = await store.fail(lease.token, JobError(code="deadline_exceeded", message="late"))
    assert settled is not None
    assert (settled.job.state, settled.ring) == (JobState.FAILED, ("default",))
    waiting = await store.get(joined.id)
    assert (waiting.state, waiting.reserved, waiting.leader_id) == (JobState.QUEUED, PRICE, None)
    assert (await rendered(store, worker)).id == joined.id


async def test_a_retry_and_a_rescue_take_the_joined_along(store: JobStore) -> None:
    """They mirror every state of their leader."""
    worker = new_worker()
    leader, joined = [await store.submit(new_job("f")) for _ in range(2)]
    lease = await claimed(store, worker)
    await store.fail(lease.token, JobError(code="render_failed", message="x"), retry_in_s=0)
    assert (await store.get(joined.id)).state is JobState.QUEUED
    await claimed(store, worker)
    assert (await sweep(store, lease_s=0)).rescued == 1
    assert (await store.get(joined.id)).state is JobState.QUEUED
    assert (await rendered(store, worker)).id == leader.id
    assert (await store.get(joined.id)).state is JobState.SUCCEEDED


async def test_a_joining_job_of_higher_priority_takes_the_leader_forward(store: JobStore) -> None:
    """Whoever wants the picture soonest decides."""
    worker = new_worker()
    first = await store.submit(new_job())
    leader = await store.submit(new_job("f"))
    await store.submit(new_job("f", priority=9))
    assert [(await claimed(store, worker)).job.id for _ in range(2)] == [leader.id, first.id]


async def test_nobody_joins_a_job_of_the_future(store: JobStore) -> None:
    """It would wait for a start that it did not ask for."""
    start = datetime.now(UTC) + timedelta(hours=1)
    await store.submit(new_job("f", start_at=start))
    now = await store.submit(new_job("f"))
    assert (now.cache, now.state) == (CacheOutcome.MISS, JobState.QUEUED)
    assert (await store.submit(new_job("f", start_at=start))).cache is CacheOutcome.MISS


async def test_a_late_joined_job_fails_alone(store: JobStore) -> None:
    """Its deadline passed while the leader still renders."""
    worker = new_worker()
    leader = await store.submit(new_job("f"))
    late = await store.submit(new_job("f", deadline_s=0.001))
    await claimed(store, worker)
    swept = await sweep(store)
    while not swept.expired:
        swept = await sweep(store)
    assert (await store.get(late.id)).state is JobState.FAILED
    assert (await store.get(leader.id)).state is JobState.RUNNING


async def test_when_leader_and_heir_are_late_together_the_third_still_renders(store: JobStore) -> None:
    """One sweep ends both; the one that joined without a deadline is not left behind a failed leader."""
    late = [await store.submit(new_job("f", deadline_s=0.001)) for _ in range(2)]
    third = await store.submit(new_job("f"))
    expired = 0
    while expired < 2:
        expired += (await sweep(store)).expired
    assert {(await store.get(job.id)).state for job in late} == {JobState.FAILED}
    waiting = await store.get(third.id)
    assert (waiting.state, waiting.leader_id, waiting.reserved) == (JobState.QUEUED, None, PRICE)
    assert (await rendered(store, new_worker())).id == third.id


@pytest.mark.parametrize("redriven", ["leader", "joined"])
async def test_a_redriven_job_renders_for_itself(store: JobStore, redriven: str) -> None:
    """Even when another of the same fingerprint is in flight."""
    worker = new_worker()
    leader, joined = [await store.submit(new_job("f")) for _ in range(2)]
    lease = await claimed(store, worker)
    await store.fail(lease.token, JobError(code="bad_output", message="x"))
    other = await store.submit(new_job("f"))
    assert other.cache is CacheOutcome.MISS
    again = (await store.retry((leader if redriven == "leader" else joined).id)).job
    assert (again.state, again.cache, again.reserved, again.leader_id) == (
        JobState.QUEUED,
        CacheOutcome.MISS,
        PRICE,
        None,
    )
    for _ in range(2):
        assert (await rendered(store, worker)).charged == PRICE


async def test_found_pictures_are_the_jobs_own_copy_of_the_rows(store: JobStore) -> None:
    """A later refresh of the entry does not change what a job has."""
    worker = new_worker()
    await store.submit(new_job("f"))
    first = await rendered(store, worker)
    hit = await store.submit(new_job("f"), first.pictures)
    await store.submit(new_job("f", cache=CacheMode.REFRESH))
    await rendered(store, worker)
    assert (await store.get(hit.id)).pictures == first.pictures
    assert first.pictures == pictures(first.id, 1)
