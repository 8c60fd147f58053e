"""What is over is deleted by age: jobs, events, pictures, cache entries and usage, each by its own."""

from __future__ import annotations

import asyncio
from uuid import UUID

import msgspec
import pytest

from jobstore.errors import JobNotFoundError
from jobstore.ids import uuid7
from jobstore.job import CacheMode, JobState
from jobstore.operating.jobs import JobFilter
from jobstore.protocol import JobStore
from jobstore.retention import Ages, Purged
from tests.contract.making import claimed, failed, new_job, new_worker, pictures, rendered

Stores = tuple[JobStore, ...]
DAY_S = 86_400.0

pytestmark = pytest.mark.usefixtures("archive_at_once")


async def done(store: JobStore, fingerprint: str | None = None) -> UUID:
    """A job that was rendered."""
    job = await store.submit(new_job(fingerprint))
    assert (await rendered(store, new_worker())).id == job.id
    return job.id


async def test_nothing_is_purged_without_an_age_or_before_it(store: JobStore) -> None:
    """Everything is still there."""
    job_id = await done(store, "f")
    before = (await store.get(job_id), await store.events(job_id), await store.usage(job_id))
    purged = await store.purge(Ages())
    assert msgspec.structs.replace(purged, archived=0) == Purged()
    old = Ages(jobs=DAY_S, events=DAY_S, outputs=DAY_S, cache=DAY_S, usage=DAY_S)
    assert await store.purge(old) == Purged()
    assert (await store.get(job_id), await store.events(job_id), await store.usage(job_id)) == before
    assert await store.find_cached("f") is not None


async def test_finished_jobs_go_with_their_events(store: JobStore) -> None:
    """However they ended; unfinished ones stay, and so do the rows of the ledger."""
    ended = [await done(store)]
    canceled = await store.submit(new_job())
    await store.cancel(canceled.id)
    await store.submit(new_job())
    ended += [canceled.id, (await failed(store, new_worker())).id]
    hit = await store.submit(new_job(), pictures(uuid7(), 1))
    ended.append(hit.id)
    await store.submit(new_job())
    running = (await claimed(store, new_worker())).job.id
    waiting = (await store.submit(new_job())).id
    purged = await store.purge(Ages(jobs=0))
    assert (purged.jobs, purged.cache, purged.usage) == (4, 0, 0)
    for job_id in ended:
        with pytest.raises(JobNotFoundError):
            await store.get(job_id)
        assert await store.events(job_id) == ()
    assert [job.id for job in (await store.list_jobs(JobFilter())).jobs] == [waiting, running]
    left = {event.job_id for event in await store.events_since(0)}
    assert left == {running, waiting}
    assert (await store.purge(Ages(jobs=0))).most == 0


async def test_a_purged_leader_leaves_those_that_joined_it(store: JobStore) -> None:
    """They are jobs of their own, and tell who rendered for them."""
    leader, joined = [await store.submit(new_job("f")) for _ in range(2)]
    await rendered(store, new_worker())
    assert (await store.purge(Ages(jobs=0), limit=1)).jobs == 1
    with pytest.raises(JobNotFoundError):
        await store.get(leader.id)
    now = await store.get(joined.id)
    assert (now.state, len(now.pictures)) == (JobState.SUCCEEDED, 1)


async def test_events_go_by_their_own_age(store: JobStore) -> None:
    """Of unfinished jobs too; the jobs stay, and numbers are not used again."""
    job_id = await done(store)
    waiting = (await store.submit(new_job())).id
    last = await store.last_event()
    assert (await store.purge(Ages(events=0))).events == 4
    assert await store.events(job_id) == await store.events(waiting) == ()
    assert (await store.get(job_id)).state is JobState.SUCCEEDED
    await store.cancel(waiting)
    [event] = await store.events(waiting)
    assert event.seq > last


async def test_usage_goes_by_its_own_age(store: JobStore) -> None:
    """The job stays as it was."""
    job_id = await done(store)
    assert (await store.purge(Ages(usage=0))).usage == 1
    assert await store.usage(job_id) == ()
    assert (await store.get(job_id)).charged > 0


async def test_cache_entries_go_by_their_own_age(store: JobStore) -> None:
    """The same request is rendered again then; the first job keeps its pictures."""
    job_id = await done(store, "f")
    assert (await store.purge(Ages(cache=0))).cache == 1
    assert await store.find_cached("f") is None
    assert await store.find_cached_any("seedless-f") is None
    assert len((await store.get(job_id)).pictures) == 1


async def test_pictures_go_by_their_own_age(store: JobStore) -> None:
    """The job says that it succeeded, and has none any more."""
    job_id = await done(store)
    assert (await store.purge(Ages(outputs=0))).pictures == 1
    job = await store.get(job_id)
    assert (job.state, job.pictures) == (JobState.SUCCEEDED, ())


async def test_a_purge_deletes_no_more_than_its_limit(store: JobStore) -> None:
    """Of each kind; those that ended first go first. ``most`` says whether anything may be left."""
    ended = [await done(store) for _ in range(5)]
    left = []
    for _ in range(4):
        purged = await store.purge(Ages(jobs=0), limit=2)
        left.append((purged.jobs, purged.most >= 2))
        listed = [job.id for job in (await store.list_jobs(JobFilter())).jobs]
        assert listed == ended[::-1][: len(listed)]
    assert left[:2] == [(2, True), (2, True)]
    assert sum(jobs for jobs, _more in left) == 5
    assert left[-1] == (0, False)


async def test_purges_at_once_delete_each_job_once(stores: Stores) -> None:
    """Three processes."""
    for _ in range(10):
        await done(stores[0])
    purged = await asyncio.gather(*(store.purge(Ages(jobs=0, usage=0, cache=0)) for store in stores))
    rest = await stores[0].purge(Ages(jobs=0, usage=0, cache=0))
    assert sum(one.jobs for one in (*purged, rest)) == 10
    assert sum(one.usage for one in (*purged, rest)) == 10
    assert sum(one.cache for one in (*purged, rest)) == 10


@pytest.mark.usefixtures("no_grace")
async def test_pictures_are_doomed_when_nothing_points_at_them(store: JobStore) -> None:
    """First the job lets go, then the cache; buried, they are forgotten."""
    job_id = await done(store, "f")
    keys = [picture.key for picture in (await store.get(job_id)).pictures]
    assert await store.pointed_at([*keys, "other"]) == frozenset(keys)
    await store.purge(Ages(jobs=0))
    assert await store.doomed() == ()
    assert await store.pointed_at(keys) == frozenset(keys)
    await store.purge(Ages(cache=0))
    assert await store.doomed() == tuple(keys)
    assert await store.pointed_at(keys) == frozenset()
    await store.bury(keys)
    assert await store.doomed() == ()


@pytest.mark.usefixtures("no_grace")
async def test_a_picture_that_another_job_has_is_not_doomed(store: JobStore) -> None:
    """A hit points at the pictures of the job that rendered; the last that lets go dooms them."""
    first = await done(store, "f")
    found = (await store.get(first)).pictures
    hit = await store.submit(new_job("f"), found)
    await store.purge(Ages(jobs=0, cache=0), limit=1)
    assert (await store.get(hit.id)).pictures == found
    assert await store.doomed() == ()
    await store.purge(Ages(jobs=0))
    assert await store.doomed() == tuple(picture.key for picture in found)


@pytest.mark.usefixtures("no_grace")
@pytest.mark.parametrize("ages", [Ages(jobs=0, cache=0), Ages(outputs=0, cache=0)])
async def test_a_doomed_picture_that_is_found_again_is_spared(store: JobStore, ages: Ages) -> None:
    """A submit that had found it in the cache before gives it to a job afterwards."""
    job_id = await done(store, "f")
    found = (await store.get(job_id)).pictures
    assert (await store.purge(ages)).doomed >= 1
    await store.submit(new_job("f"), found)
    assert await store.doomed() == ()


async def test_a_doomed_picture_has_a_time_of_grace(store: JobStore) -> None:
    """For submits that are under way."""
    await done(store, "f")
    assert (await store.purge(Ages(jobs=0, cache=0))).doomed >= 1
    assert await store.doomed() == ()


@pytest.mark.usefixtures("no_grace")
@pytest.mark.parametrize("how", ["forgotten", "replaced"])
async def test_a_cache_entry_that_is_lost_dooms_its_pictures(store: JobStore, how: str) -> None:
    """Their job was deleted before, and they were pardoned for the entry's sake."""
    old = await done(store, "f")
    await store.purge(Ages(jobs=0))
    assert await store.doomed() == ()
    if how == "forgotten":
        await store.forget_cached("f")
    else:
        await store.submit(new_job("f", cache=CacheMode.REFRESH))
        await rendered(store, new_worker())
    assert [key.split("/")[1] for key in await store.doomed()] == [str(old)]
