"""Jobs that ended long ago may be kept elsewhere: nobody who asks for them can tell."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from jobstore.errors import IllegalTransitionError
from jobstore.ids import uuid7
from jobstore.job import Job, JobState, Replay
from jobstore.ledger import Balance
from jobstore.operating.jobs import JobFilter
from jobstore.protocol import JobStore
from jobstore.retention import Ages
from tests.contract.making import NOTHING, PRICE, failed, new_job, new_worker, pictures, rendered, states_told, sweep

KEY = uuid7()

pytestmark = pytest.mark.usefixtures("archive_at_once")


async def archived(store: JobStore) -> dict[JobState, UUID]:
    """A job for each way to end, all moved away."""
    worker = new_worker()
    jobs = {}
    for state in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELED, JobState.DEAD):
        job = await store.submit(new_job(f"f-{state}", key_id=KEY, max_attempts=1))
        jobs[state] = job.id
        if state is JobState.SUCCEEDED:
            await rendered(store, worker)
        elif state is JobState.FAILED:
            await failed(store, worker, "bad_output")
        elif state is JobState.CANCELED:
            await store.cancel(job.id)
        else:
            await store.claim(worker, ["default"])
            await sweep(store, lease_s=0, max_rescues=1)
    await store.purge(Ages())
    return jobs


async def test_archived_jobs_are_read_as_before(store: JobStore) -> None:
    """With pictures, money and events."""
    for state, job_id in (await archived(store)).items():
        job = await store.get(job_id)
        assert (job.state, job.charged) == (state, PRICE if state is JobState.SUCCEEDED else NOTHING)
        assert len(job.pictures) == (1 if state is JobState.SUCCEEDED else 0)
        assert (job.error is not None) == (state in (JobState.FAILED, JobState.DEAD))
        assert (await states_told(store, job_id))[-1] == state
    assert await store.balance(KEY, "USD") == Balance(charged=PRICE)


async def test_a_job_is_the_same_before_and_after(store: JobStore) -> None:
    """Field by field."""
    await store.submit(new_job(prompt="ō 😄 飞翔", n=2, deadline_s=3600, start_deadline_s=60, priority=7))
    before = await rendered(store, new_worker())
    events = await store.events(before.id)
    await store.purge(Ages())
    assert await store.get(before.id) == before
    assert await store.events(before.id) == events


async def test_a_list_goes_over_all_newest_first(store: JobStore) -> None:
    """Old and new ones in the order of their submits, in pages and filtered."""
    old = list((await archived(store)).values())
    waiting = [(await store.submit(new_job(key_id=KEY))).id for _ in range(2)]
    hit = (await store.submit(new_job(model="other", key_id=KEY), pictures(uuid7(), 1))).id
    everything = [hit, *waiting[::-1], *old[::-1]]

    async def pages(where: JobFilter) -> list[Job]:
        seen: list[Job] = []
        cursor = None
        while True:
            page = await store.list_jobs(
                JobFilter(states=where.states, model=where.model, key_id=KEY, limit=2, cursor=cursor)
            )
            seen += page.jobs
            cursor = page.next_cursor
            if cursor is None:
                return seen

    assert [job.id for job in await pages(JobFilter())] == everything
    assert [job.id for job in await pages(JobFilter(model="m"))] == everything[1:]
    done = await pages(JobFilter(states=(JobState.SUCCEEDED,)))
    assert [job.id for job in done] == [hit, old[0]]
    assert [len(job.pictures) for job in done] == [1, 1]
    assert (await store.list_jobs(JobFilter(key_id=uuid7()))).jobs == ()


async def test_cancel_leaves_an_archived_job_as_it_is(store: JobStore) -> None:
    """And tells it."""
    for state, job_id in (await archived(store)).items():
        settled = await store.cancel(job_id)
        assert (settled.job.state, settled.ring) == (state, ())


async def test_an_archived_job_is_retried(store: JobStore) -> None:
    """A failed or dead one; it is rendered and paid for, and ends for good."""
    jobs = await archived(store)
    for state in (JobState.SUCCEEDED, JobState.CANCELED):
        with pytest.raises(IllegalTransitionError):
            await store.retry(jobs[state])
    for state in (JobState.FAILED, JobState.DEAD):
        again = await store.retry(jobs[state])
        assert (again.job.state, again.job.reserved, again.ring) == (JobState.QUEUED, PRICE, ("default",))
        done = await rendered(store, new_worker())
        assert (done.id, done.charged) == (jobs[state], PRICE)
        await store.purge(Ages())
        assert await store.get(done.id) == done
    assert await store.balance(KEY, "USD") == Balance(charged=3 * PRICE)
    assert len((await store.list_jobs(JobFilter())).jobs) == 4


async def test_archived_jobs_are_redriven_by_filter(store: JobStore) -> None:
    """Together with those that have just failed, in the order of their ends."""
    jobs = await archived(store)
    await store.submit(new_job(key_id=KEY))
    young = await failed(store, new_worker(), "bad_output")
    redriven = await store.redrive(JobFilter(error_code="bad_output"))
    assert redriven.job_ids == (jobs[JobState.FAILED], young.id)
    assert (await store.redrive(JobFilter(key_id=KEY))).job_ids == (jobs[JobState.DEAD],)
    assert await store.balance(KEY, "USD") == Balance(reserved=3 * PRICE, charged=PRICE)


async def test_archived_jobs_are_purged_by_age(store: JobStore) -> None:
    """With their events; their usage stays."""
    jobs = await archived(store)
    assert (await store.purge(Ages(jobs=0))).jobs == 4
    assert (await store.list_jobs(JobFilter())).jobs == ()
    assert await store.events_since(0) == ()
    assert len(await store.usage(jobs[JobState.SUCCEEDED])) == 1


async def test_a_replay_finds_an_archived_job(store: JobStore) -> None:
    """It is still the answer to its request."""
    replay = Replay(key="k", body_sha256="b")
    await store.submit(new_job(replay=replay))
    done = await rendered(store, new_worker())
    await store.purge(Ages())
    assert await store.submit(new_job(replay=replay)) == done


async def test_an_archived_job_is_redriven_once(stores: tuple[JobStore, ...]) -> None:
    """By whoever comes first of many at once: one event, one reservation."""
    jobs = await archived(stores[0])
    letters = [jobs[JobState.FAILED], jobs[JobState.DEAD]]
    redriven = await asyncio.gather(*(stores[index % 3].redrive(JobFilter()) for index in range(9)))
    assert sorted(job_id for one in redriven for job_id in one.job_ids) == sorted(letters)
    for job_id in letters:
        assert (await states_told(stores[0], job_id)).count("queued") == 2
    assert (await stores[0].balance(KEY, "USD")).reserved == 2 * PRICE


async def test_an_archived_job_is_retried_once(stores: tuple[JobStore, ...]) -> None:
    """All but one are told that it is queued."""
    job_id = (await archived(stores[0]))[JobState.FAILED]
    answers = await asyncio.gather(*(stores[index % 3].retry(job_id) for index in range(9)), return_exceptions=True)
    assert sum(isinstance(answer, IllegalTransitionError) for answer in answers) == 8
    assert (await states_told(stores[0], job_id)).count("queued") == 2
    assert (await stores[0].balance(KEY, "USD")).reserved == PRICE
