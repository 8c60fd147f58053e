"""Group commit: many submits a transaction, each with its own answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import psycopg
import pytest

from jobstore.errors import JobNotFoundError, QuotaExceededError, ReplayMismatchError
from jobstore.ids import uuid7
from jobstore.job import Job, JobError, JobState, NewJob, Replay
from jobstore.operating.jobs import JobFilter
from jobstore.postgres.store import PostgresStore
from jobstore.postgres.submit import Accepted
from jobstore.rules.rows import NOBODY
from tests.contract.emptying import empty_postgres
from tests.contract.keying import TESTER
from tests.contract.making import new_job, new_quota, new_worker, result


class Watched(PostgresStore):
    """A store that notes how many jobs each of its transactions took."""

    def __init__(self, url: str) -> None:
        super().__init__(url, max_connections=4)
        self.sizes: list[int] = []

    async def _submit_together(self, jobs: Sequence[NewJob]) -> list[Accepted]:
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


async def test_a_clock_that_is_set_back_lets_nobody_overspend(store: Watched) -> None:
    """A store that counted from a later instant on counts all again, when another server takes over, say."""
    quota = await store.create_quota(new_quota(most=2, period="1M"), TESTER)
    for _ in range(2):
        await store.submit(new_job(team="ads", price=Decimal(1)))
    store._since.learn([quota], {quota.id: datetime.now(UTC) + timedelta(days=40)})
    with pytest.raises(QuotaExceededError):
        await store.submit(new_job(team="ads", price=Decimal(1)))


async def test_many_submits_make_few_transactions(store: Watched) -> None:
    """Each answer is its own submit's; one alone waits for nobody."""
    key_id = uuid7()
    jobs = [new_job(key_id=key_id, team="ads", replay=Replay(key=f"k{n}", body_sha256="b")) for n in range(200)]
    submitted = await asyncio.gather(*(store.submit(new) for new in jobs))
    assert [job.id for job in submitted] == [new.id for new in jobs]
    assert sum(store.sizes) == 200
    assert len(store.sizes) <= 10
    page = await store.list_jobs(JobFilter(states=(JobState.QUEUED,), limit=200))
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
    for key_id in (mine, yours):  # from here on it is known that they have no quotas
        await store.cancel((await store.submit(new_job(key_id=key_id))).id)
    store.sizes.clear()
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
    assert len((await store.list_jobs(JobFilter(states=(JobState.QUEUED,)))).jobs) == 5


async def test_one_key_many_times_in_one_transaction(store: Watched) -> None:
    """One job; another body under the key is refused."""
    same = [new_job(replay=Replay(key="k", body_sha256="b")) for _ in range(20)]
    other = new_job(replay=Replay(key="k", body_sha256="c"))
    answers = await asyncio.gather(*(store.submit(new) for new in [*same, other]), return_exceptions=True)
    assert {answer.id for answer in answers if isinstance(answer, Job)} == {same[0].id}
    assert isinstance(answers[-1], ReplayMismatchError)


async def test_keys_are_taken_in_one_order_whether_they_are_renewed_or_not(
    store: Watched, emptied_database: str
) -> None:
    """Else two batches wait for each other, until the database finds out: a second each time."""

    def job(key: str, *, renew: bool = False) -> NewJob:
        return new_job(replay=Replay(key=key, body_sha256="b", renew=renew))

    await store.submit(job("c"))
    async with await psycopg.AsyncConnection.connect(emptied_database) as holder:
        taken = "INSERT INTO replay VALUES (%s, 'a', 'b', %s, 'infinity')"
        await holder.execute(taken, [NOBODY, uuid7()])
        renewing = asyncio.create_task(store._submit_together([job("c", renew=True), job("a"), job("b")]))
        held = "SELECT FROM pg_locks WHERE NOT granted AND transactionid = pg_current_xact_id()::xid"
        async with asyncio.timeout(10):
            while not (await holder.execute(held)).rowcount:
                pass
            first, known = await store._submit_together([job("b"), job("c")])
        await holder.rollback()
    assert isinstance(first, Job)
    assert known is None
    assert [isinstance(answer, Job) for answer in await renewing] == [True, True, False]


async def test_a_renewal_that_is_refused_leaves_its_key_beside_others_that_are_taken(store: Watched) -> None:
    """It stands for the same job, and for as long; a key whose time was over is free."""

    def job(n: int, keep_s: float = 3600, *, renew: bool = False, team: str | None = "ads") -> NewJob:
        return new_job(team=team, replay=Replay(key=f"k{n}", body_sha256="b", keep_s=keep_s, renew=renew))

    old = [await store.submit(job(n, -1 if n == 2 else 3600, team=None)) for n in range(3)]
    await store.create_quota(new_quota(kind="concurrency"))
    renewals = [job(n, renew=n < 2) for n in range(3)]
    taken, *refused = await asyncio.gather(*(store.submit(new) for new in renewals), return_exceptions=True)
    assert isinstance(taken, Job)
    assert [type(answer) for answer in refused] == [QuotaExceededError] * 2
    assert store.sizes[-1] == 3
    again = [await store.submit(job(n, team=None)) for n in range(3)]
    assert [found.id for found in again[:2]] == [taken.id, old[1].id]
    assert again[2].id not in {one.id for one in old}


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
    assert len((await later.list_jobs(JobFilter(states=(JobState.QUEUED,)))).jobs) == 10
    await later.close()


async def test_who_waits_for_a_quota_keeps_nobody_else_waiting(store: Watched, emptied_database: str) -> None:
    """A frozen process that holds a team's quota stops that team alone."""
    await store.create_quota(new_quota("slow", 1))
    async with await psycopg.AsyncConnection.connect(emptied_database) as other:
        await other.execute("SELECT FROM quota FOR UPDATE")
        waiting = [asyncio.create_task(store.submit(new_job(team="slow"))) for _ in range(5)]
        await asyncio.sleep(0)
        for _ in range(3):
            await store.submit(new_job(team="quick"))
        assert not any(task.done() for task in waiting)
        await other.rollback()
    assert {job.team for job in await asyncio.gather(*waiting)} == {"slow"}


async def test_what_joins_or_starts_later_moves_nobody_back(store: Watched, emptied_database: str) -> None:
    """Forty copies of one picture cost their key one picture's place; forty jobs for tomorrow none."""
    key_id, tomorrow = uuid7(), datetime.now(UTC) + timedelta(days=1)
    jobs = [new_job("f", key_id=key_id) for _ in range(40)]
    jobs += [new_job(key_id=key_id, start_at=tomorrow) for _ in range(40)]
    last = new_job(key_id=key_id)
    *_, placed = await asyncio.gather(*(store.submit(new) for new in [*jobs[:20], *jobs[40:80], *jobs[20:40], last]))
    assert placed.queue_position == 2
    async with await psycopg.AsyncConnection.connect(emptied_database) as connection:
        cursor = await connection.execute("SELECT start_tag, share_s FROM job WHERE id = %s", [last.id])
        row = await cursor.fetchone()
    assert row is not None
    assert row[0] <= 2 * row[1]


async def test_a_refused_first_try_leaves_the_earlier_job_under_its_key(store: Watched) -> None:
    """Later tries of the earlier request find its job."""
    key_id = uuid7()
    earlier = await store.submit(new_job(key_id=key_id, replay=Replay(key="k", body_sha256="b", renew=True)))
    await store.create_quota(new_quota(str(key_id), 0, owner_kind="key"))
    for count in (1, 2):
        new = [new_job(key_id=key_id, replay=Replay(key="k", body_sha256="b", renew=True)), new_job(key_id=key_id)]
        answers = await asyncio.gather(*(store.submit(each) for each in new[:count]), return_exceptions=True)
        assert all(isinstance(answer, QuotaExceededError) for answer in answers)
        again = await store.submit(new_job(key_id=key_id, replay=Replay(key="k", body_sha256="b")))
        assert again.id == earlier.id


async def test_nobody_waits_in_a_circle(emptied_database: str) -> None:
    """Two processes submit the same pictures in other orders, retry and finish, all under one budget."""
    empty_postgres(emptied_database)
    stores = [Watched(emptied_database) for _ in range(2)]
    for store in stores:
        await store.open()
    await stores[0].create_quota(new_quota("ads", 1000))
    await stores[0].create_quota(new_quota("ads", 1000, period="1d"))
    before = await deadlocks(emptied_database)
    key_id, worker, chance = uuid7(), new_worker(), random.Random(1)

    async def client(store: PostgresStore) -> None:
        for _ in range(6):
            names = [f"f{number}" for number in range(24)]
            chance.shuffle(names)
            await asyncio.gather(*(store.submit(new_job(name, team="ads", key_id=key_id)) for name in names))

    async def render(store: PostgresStore) -> None:
        for number in range(60):
            lease = await store.claim(worker, ["default"])
            if lease is None:
                await asyncio.sleep(0.005)
            elif number % 4:
                await store.finish(lease.token, result(lease))
            else:
                await store.fail(lease.token, JobError(code="render_failed", message="x"))
                await store.retry(lease.job.id)

    await asyncio.gather(*(client(store) for store in stores), *(render(store) for store in stores for _ in range(3)))
    assert await deadlocks(emptied_database) == before
    for store in stores:
        await store.close()


async def deadlocks(url: str) -> int:
    """How many the database has had to break."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        cursor = await connection.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        row = await cursor.fetchone()
    return int(row[0]) if row else 0
