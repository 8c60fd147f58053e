"""Dead letters are redriven by what they have in common."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from uuid import UUID

import pytest
from msgspec.structs import replace

from jobstore.ids import uuid7
from jobstore.job import CacheOutcome, JobError, JobState
from jobstore.ledger import Balance
from jobstore.operating.jobs import JobFilter, Reached
from jobstore.protocol import JobStore
from jobstore.rules.requests import redrive
from jobstore.rules.store import RuledStore
from tests.contract.making import (
    NOTHING,
    PRICE,
    claimed,
    failed,
    new_job,
    new_worker,
    rendered,
    states_told,
    sweep,
    take,
)

Stores = tuple[JobStore, ...]


async def dead(store: JobStore) -> UUID:
    """A job whose attempts are used up."""
    await store.submit(new_job(max_attempts=1))
    lease = await claimed(store, new_worker())
    settled = await store.fail(lease.token, JobError(code="out_of_memory", message="x"), retry_in_s=0)
    assert settled is not None
    assert settled.job.state is JobState.DEAD
    return settled.job.id


async def letters(store: JobStore, count: int) -> list[UUID]:
    """So many failed jobs, in the order of their ends."""
    for _ in range(count):
        await store.submit(new_job())
    return [(await failed(store, new_worker())).id for _ in range(count)]


async def test_all_dead_letters_are_redriven(store: JobStore) -> None:
    """Failed and dead ones, with fresh attempts at their price; nothing that ended otherwise."""
    lost = await dead(store)
    [broken] = await letters(store, 1)
    await store.submit(new_job())
    done = await rendered(store, new_worker())
    gone = await store.submit(new_job())
    await store.cancel(gone.id)
    redriven = await store.redrive(JobFilter())
    assert redriven == Reached(job_ids=(lost, broken), ring=("default", "default"))
    for job_id in (lost, broken):
        job = await store.get(job_id)
        assert (job.state, job.reserved, job.error, job.finished_at) == (JobState.QUEUED, PRICE, None, None)
    assert (await store.get(done.id)).state is JobState.SUCCEEDED
    assert (await store.get(gone.id)).state is JobState.CANCELED
    assert await store.redrive(JobFilter()) == Reached()
    assert {(await rendered(store, new_worker())).id for _ in range(2)} == {lost, broken}
    assert await states_told(store, broken) == ["queued", "running", "failed", "queued", "running", "succeeded"]


async def test_a_filter_takes_jobs_for_which_all_holds(store: JobStore) -> None:
    """State, lane, model, key and error code, each alone and together."""
    key_id = uuid7()
    for fields in ({"model": "x"}, {"lane": "b"}, {"key_id": key_id}, {"key_id": key_id, "lane": "b"}):
        await store.submit(new_job(**fields))
    worker = new_worker("default", "b")
    jobs = {}
    for _ in range(4):
        job = await failed(store, worker, lanes=("default", "b"))
        jobs[job.lane, job.request.model, job.key_id] = job.id
    await store.submit(new_job())
    code = (await failed(store, worker, "bad_output")).id
    lost = await dead(store)

    async def redriven(where: JobFilter) -> set[UUID]:
        found = set((await store.redrive(where)).job_ids)
        for _ in found:  # put them back
            await failed(store, worker, lanes=("default", "b"))
        return found

    assert await redriven(JobFilter(states=(JobState.DEAD,), lane="b")) == set()
    assert await redriven(JobFilter(lane="nowhere")) == set()
    assert await redriven(JobFilter(error_code="bad_output")) == {code}
    assert await redriven(JobFilter(error_code="out_of_memory")) == {lost}
    assert await redriven(JobFilter(model="x")) == {jobs["default", "x", None]}
    assert await redriven(JobFilter(lane="b")) == {jobs["b", "m", None], jobs["b", "m", key_id]}
    assert await redriven(JobFilter(key_id=key_id)) == {jobs["default", "m", key_id], jobs["b", "m", key_id]}
    assert await redriven(JobFilter(key_id=key_id, lane="b")) == {jobs["b", "m", key_id]}
    assert await redriven(JobFilter(states=(JobState.SUCCEEDED, JobState.CANCELED))) == set()


async def test_a_filter_takes_what_a_search_finds(store: JobStore) -> None:
    """By dimensions, a part of the prompt, the whole id, the worker that had it, its host, and the submit's time."""
    worker, other = new_worker(), new_worker()
    await store.submit(replace(new_job(prompt="a red Circle"), dimensions={"team": "red"}))
    red = (await failed(store, worker)).id
    await store.submit(replace(new_job(), dimensions={"team": "blue"}))
    blue = (await failed(store, other)).id
    hour, at = timedelta(hours=1), (await store.get(red)).created_at
    for where, names in (
        (JobFilter(worker_id=worker.id), {red}),
        (JobFilter(worker_id=other.id, text="RED circle"), set()),
        (JobFilter(host=worker.host, dimensions={"team": "red"}), {red}),
        (JobFilter(host="elsewhere"), set()),
        (JobFilter(dimensions={"team": "green"}), set()),
        (JobFilter(text="RED circle"), {red}),
        (JobFilter(text=str(blue)), {blue}),
        (JobFilter(created_after=at - hour), {red, blue}),
        (JobFilter(created_after=at + hour), set()),
        (JobFilter(created_before=at - hour), set()),
        (JobFilter(created_before=at + hour, dimensions={"team": "blue"}), {blue}),
    ):
        assert (await store.count_letters(where)).count == len(names), where
        assert set((await store.redrive(where)).job_ids) == names, where
        for _ in names:  # put them back
            await failed(store, worker)


async def test_a_redrive_goes_on_behind_what_it_left(store: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks at so many letters at a time, and none is met twice; a cursor of a list is none of a redrive."""
    for room in ("postgres", "sqlite"):
        monkeypatch.setattr(f"jobstore.{room}.finding.LOOKED_AT", 2)
    ended = await letters(store, 4)
    last = JobFilter(text=(str(ended[3])))
    assert (await store.redrive(last)).job_ids == (ended[3],), "an id is found wherever it is"
    await failed(store, new_worker())
    assert (await store.count_letters(JobFilter(error_code="none"))).at_least
    first = await store.redrive(JobFilter(error_code="none"))
    assert first.job_ids == ()
    rest = await store.redrive(JobFilter(cursor=first.next_cursor))
    assert rest.job_ids == tuple(ended[2:])
    page = await store.list_jobs(JobFilter(limit=1))
    with pytest.raises(ValueError, match="cursor"):
        await store.redrive(JobFilter(cursor=page.next_cursor))


async def test_a_letter_that_changed_meanwhile_is_left(store: JobStore) -> None:
    """It ended anew, with another error or later than was meant, before its turn came."""
    [again] = await letters(store, 1)
    at = (await store.get(again)).finished_at
    assert isinstance(store, RuledStore)
    for where, reached in (
        (JobFilter(error_code="elsewhere"), ()),
        (JobFilter(finished_before=at), ()),
        (JobFilter(states=(JobState.DEAD,)), ()),
        (JobFilter(lane="default", states=(JobState.FAILED,)), (again,)),
    ):
        done = await store.in_transaction(partial(redrive, ids=[again], where=where))
        assert done.job_ids == reached


async def test_a_filter_goes_by_the_time_of_the_end(store: JobStore) -> None:
    """After, before, and between."""
    first, second, third = await letters(store, 3)
    ends = {job_id: (await store.get(job_id)).finished_at for job_id in (first, second, third)}
    middle = ends[second]
    assert middle is not None
    moment = timedelta(microseconds=1)
    assert (await store.redrive(JobFilter(finished_after=datetime.now(UTC) + timedelta(hours=1)))).job_ids == ()
    assert (await store.redrive(JobFilter(finished_before=middle - timedelta(hours=1)))).job_ids == ()
    between = JobFilter(finished_after=middle - moment, finished_before=middle + moment)
    assert (await store.redrive(between)).job_ids == (second,)
    assert (await store.redrive(JobFilter(finished_after=middle))).job_ids == (third,)
    assert (await store.redrive(JobFilter(finished_before=middle))).job_ids == (first,)


async def test_a_limit_takes_those_that_ended_first(store: JobStore) -> None:
    """And they take their places at the end of the queue in that order."""
    ended = await letters(store, 5)
    waiting = (await store.submit(new_job())).id
    assert (await store.redrive(JobFilter(), limit=2)).job_ids == tuple(ended[:2])
    assert (await store.redrive(JobFilter(), limit=2)).job_ids == tuple(ended[2:4])
    last = (await store.submit(new_job())).id
    assert (await store.redrive(JobFilter(), limit=2)).job_ids == (ended[4],)
    assert await take(store, 7) == [waiting, *ended[:4], last, ended[4]]


async def test_a_retry_too_takes_a_place_at_the_end(store: JobStore) -> None:
    """It does not keep the one that it had."""
    [again] = await letters(store, 1)
    waiting = [(await store.submit(new_job())).id for _ in range(3)]
    assert (await store.retry(again)).job.queue_position in (None, 4)
    assert (await store.get(again)).queue_position == 4
    assert await take(store, 4) == [*waiting, again]


async def test_a_key_that_redrives_many_does_not_hold_up_others(store: JobStore) -> None:
    """Redriven jobs share the lane as new ones do."""
    many, one = uuid7(), uuid7()
    for _ in range(10):
        await store.submit(new_job(key_id=many))
    worker = new_worker()
    for _ in range(10):
        await failed(store, worker)
    await store.redrive(JobFilter())
    single = await store.submit(new_job(key_id=one))
    assert single.id in await take(store, 2)


async def test_redriven_jobs_reserve_their_price_again(store: JobStore) -> None:
    """Each its own; a success is charged once."""
    key_id = uuid7()
    for price in ("0.1", "0.25"):
        await store.submit(new_job(key_id=key_id, price=Decimal(price)))
    for _ in range(2):
        await failed(store, new_worker())
    assert await store.balance(key_id, "USD") == Balance()
    await store.redrive(JobFilter(key_id=key_id))
    assert await store.balance(key_id, "USD") == Balance(reserved=Decimal("0.35"))
    charged = (await rendered(store, new_worker())).charged
    assert await store.balance(key_id, "USD") == Balance(reserved=Decimal("0.35") - charged, charged=charged)


async def test_jobs_that_failed_with_their_leader_are_redriven_as_their_own(store: JobStore) -> None:
    """Each renders for itself."""
    jobs = [await store.submit(new_job("f")) for _ in range(3)]
    await failed(store, new_worker())
    assert len((await store.redrive(JobFilter())).job_ids) == 3
    for job in jobs:
        now = await store.get(job.id)
        assert (now.leader_id, now.cache, now.reserved) == (None, CacheOutcome.MISS, PRICE)


@pytest.mark.parametrize("how", ["dead", "late"])
async def test_a_redriven_job_starts_afresh(store: JobStore, how: str) -> None:
    """Rescues and deadlines of its first life are forgotten."""
    job = await store.submit(new_job(deadline_s=3600 if how == "dead" else -1, start_at=None))
    if how == "dead":
        for _ in range(3):
            await claimed(store, new_worker())
            await sweep(store, lease_s=0)
    else:
        await sweep(store)
    [again] = (await store.redrive(JobFilter())).job_ids
    assert again == job.id
    now = await store.get(job.id)
    assert (now.state, now.rescues, now.deadline_at, now.charged) == (JobState.QUEUED, 0, None, NOTHING)
    assert (await sweep(store)).expired == 0


async def test_redrives_at_once_take_each_job_once(stores: Stores) -> None:
    """Three processes, one event each job."""
    ended = await letters(stores[0], 12)
    redriven = await asyncio.gather(*(store.redrive(JobFilter()) for store in stores))
    assert sorted(job_id for one in redriven for job_id in one.job_ids) == sorted(ended)
    for job_id in ended:
        assert (await states_told(stores[0], job_id)).count("queued") == 2
