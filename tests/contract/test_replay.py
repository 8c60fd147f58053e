"""Replay keys: a repeated submit is answered with the job of the first one."""

from __future__ import annotations

import asyncio
from uuid import UUID

import msgspec
import pytest

from jobstore.errors import QuotaExceededError, ReplayGoneError, ReplayMismatchError
from jobstore.ids import uuid7
from jobstore.job import CacheOutcome, JobState, Replay
from jobstore.operating.jobs import JobFilter
from jobstore.protocol import JobStore
from jobstore.retention import Ages
from tests.contract.making import PRICE, REFUSED, new_job, new_quota, new_worker, pictures, rendered

Stores = tuple[JobStore, ...]


def replay(body: str = "one", *, key: str = "key", keep_s: float = 3600, renew: bool = False) -> Replay:
    """A replay key with the digest of a request's body."""
    return Replay(key=key, body_sha256=body, keep_s=keep_s, renew=renew)


async def listed(store: JobStore) -> list[UUID]:
    """All jobs, newest first."""
    return [job.id for job in (await store.list_jobs(JobFilter())).jobs]


async def test_a_repeated_submit_is_answered_with_the_first_job(stores: Stores) -> None:
    """By any process; nothing is written or reserved a second time."""
    key_id = uuid7()
    first = await stores[0].submit(new_job(replay=replay(), key_id=key_id))
    before = await stores[0].last_event()
    again = await stores[1].submit(new_job(replay=replay(), key_id=key_id))
    assert again == first == await stores[0].get(first.id)
    assert await listed(stores[0]) == [first.id]
    assert await stores[0].last_event() == before
    assert (await stores[0].balance(key_id, "USD")).reserved == PRICE


async def test_another_request_under_the_same_key_is_refused(store: JobStore) -> None:
    """Nothing is written, and the first request is still answered."""
    first = await store.submit(new_job(replay=replay()))
    with pytest.raises(ReplayMismatchError):
        await store.submit(new_job(replay=replay("other")))
    assert await listed(store) == [first.id]
    assert (await store.submit(new_job(replay=replay()))).id == first.id


async def test_other_keys_make_other_jobs(store: JobStore) -> None:
    """A replay key belongs to the API key; jobs without an API key have theirs together."""
    keys = [None, uuid7(), uuid7()]
    jobs = [await store.submit(new_job(replay=replay(), key_id=key_id)) for key_id in keys]
    other = await store.submit(new_job(replay=replay(key="other")))
    assert len({job.id for job in (*jobs, other)}) == 4
    again = [await store.submit(new_job(replay=replay(), key_id=key_id)) for key_id in keys]
    assert [job.id for job in again] == [job.id for job in jobs]


@pytest.mark.parametrize("body", ["one", "other"])
async def test_a_first_try_makes_a_job_whatever_the_key_made_before(store: JobStore, body: str) -> None:
    """And later tries find that one."""
    old = await store.submit(new_job(replay=replay()))
    new = await store.submit(new_job(replay=replay(body, renew=True)))
    assert new.id != old.id
    assert (await store.submit(new_job(replay=replay(body)))).id == new.id
    assert await listed(store) == [new.id, old.id]


async def test_a_key_is_forgotten_after_its_time(store: JobStore) -> None:
    """Then it is as if it had never been used, for another request too."""
    first = await store.submit(new_job(replay=replay(keep_s=0)))
    second = await store.submit(new_job(replay=replay("other")))
    assert second.id != first.id
    assert (await store.submit(new_job(replay=replay("other")))).id == second.id


async def test_fifty_submits_at_once_make_one_job(stores: Stores) -> None:
    """From three processes; one event, one reservation."""
    key_id = uuid7()
    jobs = await asyncio.gather(
        *(stores[index % 3].submit(new_job(replay=replay(), key_id=key_id)) for index in range(50))
    )
    [made] = {job.id for job in jobs}
    assert await listed(stores[0]) == [made]
    assert len(await stores[0].events(made)) == 1
    assert (await stores[0].balance(key_id, "USD")).reserved == PRICE


async def test_of_two_requests_at_once_under_one_key_one_is_made(stores: Stores) -> None:
    """The other is refused, in each of its tries."""
    answers = await asyncio.gather(
        *(stores[index % 3].submit(new_job(replay=replay(f"body {index % 2}"))) for index in range(20)),
        return_exceptions=True,
    )
    made = [answer for answer in answers if not isinstance(answer, BaseException)]
    refused = [answer for answer in answers if isinstance(answer, ReplayMismatchError)]
    assert (len(made), len(refused)) == (10, 10)
    assert [job.id for job in made[:1]] == await listed(stores[0])


async def test_a_key_is_looked_up_without_a_submit(store: JobStore) -> None:
    """What a submit would answer with; nothing is written, and a key that nobody used stays free."""
    key_id = uuid7()
    assert await store.find_replay(key_id, replay()) is None
    job = await store.submit(new_job(replay=replay(), key_id=key_id))
    found = await store.find_replay(key_id, replay())
    assert found is not None
    assert found.id == job.id
    assert await store.find_replay(None, replay()) is None
    with pytest.raises(ReplayMismatchError):
        await store.find_replay(key_id, replay("other"))
    assert await store.find_replay(key_id, replay("other", renew=True)) is None


async def test_a_job_that_ended_is_told_as_it_is(store: JobStore) -> None:
    """With its pictures, and not rendered again."""
    first = await store.submit(new_job(replay=replay()))
    done = await rendered(store, new_worker())
    again = await store.submit(new_job(replay=replay()))
    assert again == done
    assert (again.id, again.state, len(again.pictures)) == (first.id, JobState.SUCCEEDED, 1)


async def test_answers_from_the_cache_and_joined_jobs_are_replayed_too(store: JobStore) -> None:
    """Whatever the second try found in the cache."""
    leader = await store.submit(new_job("f"))
    joined = await store.submit(new_job("f", replay=replay(key="joined")))
    assert joined.leader_id == leader.id
    found = pictures(leader.id, 1)
    hit = await store.submit(new_job("g", replay=replay(key="hit")), found)
    assert (await store.submit(new_job("f", replay=replay(key="joined")))).id == joined.id
    assert (await store.submit(new_job("f", replay=replay(key="joined")), found)).state is JobState.QUEUED
    again = await store.submit(new_job("g", replay=replay(key="hit")))
    assert (again.id, again.cache, again.pictures) == (hit.id, CacheOutcome.HIT, found)


async def test_a_submit_that_failed_leaves_no_key(store: JobStore) -> None:
    """The next try makes the job."""
    broken = new_job(replay=replay())
    [picture] = pictures(broken.id, 1)
    with pytest.raises(REFUSED):
        await store.submit(broken, (picture, picture))
    assert await listed(store) == []
    job = await store.submit(new_job(replay=replay("other")))
    assert await listed(store) == [job.id]


@pytest.mark.usefixtures("archive_at_once")
async def test_a_key_whose_job_was_deleted_says_so(store: JobStore) -> None:
    """Rather than render again what was asked for once; a first try makes a new job."""
    job = await store.submit(new_job(replay=replay()))
    await store.cancel(job.id)
    assert (await store.purge(Ages(jobs=0))).jobs == 1
    with pytest.raises(ReplayGoneError):
        await store.submit(new_job(replay=replay()))
    with pytest.raises(ReplayGoneError):
        await store.find_replay(None, replay())
    assert await listed(store) == []
    new = await store.submit(new_job(replay=replay(renew=True)))
    assert (await store.submit(new_job(replay=replay()))).id == new.id


async def test_of_revivals_at_once_one_makes_the_job(stores: Stores) -> None:
    """In the place of the one that was canceled; the others find it, and so does whoever comes later with either."""
    first = await stores[0].submit(new_job(replay=replay()))
    await stores[0].cancel(first.id)
    revival = msgspec.structs.replace(replay(), instead_of=first.id)
    revived = await asyncio.gather(*(stores[number % 3].submit(new_job(replay=revival)) for number in range(9)))
    [made] = {job.id for job in revived}
    assert await listed(stores[0]) == [made, first.id]
    assert (await stores[1].submit(new_job(replay=replay()))).id == made
    assert (await stores[2].submit(new_job(replay=revival))).id == made
    found = await stores[1].find_replay(None, revival)
    assert found is not None
    assert found.id == made
    assert await stores[1].find_replay(None, msgspec.structs.replace(revival, instead_of=made)) is None
    await stores[0].cancel(made)
    third = await stores[0].submit(new_job(replay=msgspec.structs.replace(revival, instead_of=made)))
    assert third.id not in (made, first.id)


async def test_a_revival_that_a_quota_refuses_leaves_the_key_as_it_was(store: JobStore) -> None:
    """It still finds the canceled job."""
    first = await store.submit(new_job(replay=replay(), team="ads"))
    await store.cancel(first.id)
    await store.create_quota(new_quota(most=0))
    revival = msgspec.structs.replace(replay(), instead_of=first.id)
    with pytest.raises(QuotaExceededError):
        await store.submit(new_job(replay=revival, team="ads"))
    assert (await store.submit(new_job(replay=replay(), team="ads"))).id == first.id
