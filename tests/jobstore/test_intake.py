"""Group commit: many submits a transaction, each with its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from decimal import Decimal

import psycopg
import pytest

from jobstore.errors import JobNotFoundError, QuotaExceededError, ReplayMismatchError
from jobstore.ids import uuid7
from jobstore.job import Job, JobState, NewJob, Replay
from jobstore.postgres.store import PostgresStore
from jobstore.protocol import JobFilter
from tests.contract.emptying import empty_postgres
from tests.contract.making import new_job, new_quota


class Watched(PostgresStore):
    """A store that notes how many jobs each of its transactions took."""

    def __init__(self, url: str) -> None:
        super().__init__(url, max_connections=4)
        self.sizes: list[int] = []

    async def _submit_together(self, jobs: Sequence[NewJob]) -> list[Job | QuotaExceededError | None]:
        self.sizes.append(len(jobs))
        return await super()._submit_together(jobs)


@pytest.fixture
async def store(emptied_database: str) -> AsyncIterator[Watched]:
    """An open one on an empty database; it knows the lane."""
    empty_postgres(emptied_database)
    store = Watched(emptied_database)
    await store.open()
    await store.cancel((await store.submit(new_job())).id)
    store.sizes.clear()
    yield store
    await store.close()


async def test_many_submits_make_few_transactions(store: Watched) -> None:
    """Each answer is its own submit's; one alone waits for nobody."""
    jobs = [new_job(key_id=uuid7(), team="ads", replay=Replay(key=f"k{n}", body_sha256="b")) for n in range(200)]
    submitted = await asyncio.gather(*(store.submit(new) for new in jobs))
    assert [job.id for job in submitted] == [new.id for new in jobs]
    assert sum(store.sizes) == 200
    assert len(store.sizes) <= 10
    page = await store.list_jobs(JobFilter(state=JobState.QUEUED, limit=200))
    assert {job.id for job in page.jobs} == {new.id for new in jobs}
    await store.submit(new_job())
    assert store.sizes[-1] == 1


async def test_what_is_told_is_what_was_written(store: Watched) -> None:
    """To the last field, but for the place in the queue."""
    new = new_job(key_id=uuid7(), team="ads", customer="acme", rate=Decimal("0.5"), deadline_s=60.0, previews=2)
    told = await store.submit(new)
    assert told == await store.get(new.id)
    assert (told.queue_position, told.state) == (1, JobState.QUEUED)


async def test_jobs_of_a_key_stand_one_behind_the_other(store: Watched) -> None:
    """Within one transaction too: the other key's jobs come between them, not after them."""
    mine, yours = uuid7(), uuid7()
    jobs = [new_job(key_id=mine) for _ in range(4)] + [new_job(key_id=yours) for _ in range(4)]
    await asyncio.gather(*(store.submit(new) for new in jobs))
    assert len(store.sizes) == 1
    ranks = {new.id: (await store.get(new.id)).queue_position for new in jobs}
    assert sorted(ranks[new.id] or 0 for new in jobs[:4]) == [1, 3, 5, 7]


async def test_one_that_can_t_be_written_spoils_no_other(store: Watched) -> None:
    """Its own submit raises; those beside it are written."""
    jobs = [new_job() for _ in range(5)]
    jobs.insert(2, new_job(price=Decimal(10) ** 15))
    answers = await asyncio.gather(*(store.submit(new) for new in jobs), return_exceptions=True)
    assert [isinstance(answer, psycopg.Error) for answer in answers] == [False, False, True, False, False, False]
    with pytest.raises(JobNotFoundError):
        await store.get(jobs[2].id)
    assert len((await store.list_jobs(JobFilter(state=JobState.QUEUED))).jobs) == 5


async def test_one_key_many_times_in_one_transaction(store: Watched) -> None:
    """One job; another body under the key is refused."""
    same = [new_job(replay=Replay(key="k", body_sha256="b")) for _ in range(20)]
    other = new_job(replay=Replay(key="k", body_sha256="c"))
    answers = await asyncio.gather(*(store.submit(new) for new in [*same, other]), return_exceptions=True)
    assert {answer.id for answer in answers if isinstance(answer, Job)} == {same[0].id}
    assert isinstance(answers[-1], ReplayMismatchError)


async def test_refused_and_taken_in_one_transaction(store: Watched) -> None:
    """The first ones fit; the key of a refused one stays free, and identical ones join within the transaction."""
    await store.create_quota(new_quota(most=Decimal("0.3")))
    jobs = [
        new_job("f", team="ads", price=Decimal("0.1"), replay=Replay(key=f"k{n}", body_sha256="b")) for n in range(5)
    ]
    answers = await asyncio.gather(*(store.submit(new) for new in jobs), return_exceptions=True)
    assert [isinstance(answer, QuotaExceededError) for answer in answers] == [False, False, False, True, True]
    assert len(store.sizes) == 1
    first, *joined = [answer for answer in answers if isinstance(answer, Job)]
    assert [job.leader_id for job in joined] == [first.id, first.id]
    again = [new_job(replay=Replay(key=f"k{n}", body_sha256="b")) for n in range(5)]
    second = await asyncio.gather(*(store.submit(new) for new in again))
    assert [job.id for job in second] == [jobs[0].id, jobs[1].id, jobs[2].id, again[3].id, again[4].id]


async def test_a_caller_that_goes_away_leaves_its_job(store: Watched, emptied_database: str) -> None:
    """It was accepted: the others of its transaction, and a close, wait for it."""
    jobs = [new_job() for _ in range(10)]
    tasks = [asyncio.create_task(store.submit(new)) for new in jobs]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
    await store.close()
    later = Watched(emptied_database)
    await later.open()
    assert len((await later.list_jobs(JobFilter(state=JobState.QUEUED))).jobs) == 10
    await later.close()
