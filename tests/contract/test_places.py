"""A job's place goes with what it stands for: through joins, heirs, redrives, late starts and what was never served."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from jobstore.ids import uuid7
from jobstore.job import CacheMode, CacheOutcome, JobError, JobState
from jobstore.postgres.rows import PostgresRows
from jobstore.protocol import JobStore
from jobstore.sqlite.rows import SqliteRows
from tests.contract.making import claimed, new_job, new_worker, result, sweep
from tests.contract.test_replay import replay

BACKLOG = 12


async def backlog(store: JobStore, key_id: UUID, **fields: Any) -> list[UUID]:
    """So many jobs of one key, each of another picture."""
    return [(await store.submit(new_job(f"f{i}", key_id=key_id, **fields))).id for i in range(BACKLOG)]


async def keys_in_order(store: JobStore) -> list[UUID | None]:
    """Whose jobs start, to the last one."""
    worker = new_worker()
    keys = []
    while (lease := await store.claim(worker, ["default"])) is not None:
        keys.append(lease.job.key_id)
    return keys


async def test_a_join_that_takes_a_job_forward_leaves_the_lanes_clock(store: JobStore) -> None:
    """The last of many jobs is taken forward; whoever comes in after its start need not wait for the many."""
    many, one, other = uuid7(), uuid7(), uuid7()
    jobs = await backlog(store, many)
    await store.submit(new_job(f"f{BACKLOG - 1}", key_id=one))
    worker = new_worker()
    started = [(await claimed(store, worker)).job.id for _ in range(2)]
    assert jobs[-1] in started
    newcomer = await store.submit(new_job(key_id=other))
    assert newcomer.queue_position is not None
    assert newcomer.queue_position <= 2


async def test_a_job_that_was_taken_forward_is_redriven_to_the_end(store: JobStore) -> None:
    """Its place then is that of its own priority."""
    many = uuid7()
    jobs = await backlog(store, many)
    await store.submit(new_job(f"f{BACKLOG - 1}", key_id=uuid7()))
    worker = new_worker()
    lease = await claimed(store, worker)
    while lease.job.id != jobs[-1]:
        await store.finish(lease.token, result(lease))
        lease = await claimed(store, worker)
    await store.fail(lease.token, JobError(code="render_failed", message="x"))
    await store.retry(jobs[-1])
    places = [(await store.get(job)).queue_position or 0 for job in jobs]
    assert places[-1] == max(places) > 5


async def test_an_heir_keeps_its_own_keys_place(store: JobStore) -> None:
    """It stands where it would rank first, and its key's next job behind that, not behind another key's many."""
    many, one = uuid7(), uuid7()
    jobs = await backlog(store, many)
    await store.submit(new_job(f"f{BACKLOG - 1}", key_id=one))
    await store.cancel(jobs[-1])
    following = await store.submit(new_job(key_id=one))
    assert following.queue_position is not None
    assert following.queue_position <= 5


async def test_jobs_that_are_due_stand_in_line(store: JobStore) -> None:
    """Many that one key put off to the same moment don't all come before those of others."""
    many, busy, other = uuid7(), uuid7(), uuid7()
    soon = datetime.now(UTC) + timedelta(seconds=0.5)
    await backlog(store, many, start_at=soon)
    for _ in range(BACKLOG):
        await store.submit(new_job(key_id=busy))
    await asyncio.sleep(0.6)
    assert (await sweep(store)).staged == BACKLOG
    await store.submit(new_job(key_id=other))
    order = await keys_in_order(store)
    assert order.index(other) <= 4
    assert max(order[:BACKLOG].count(key) for key in (many, busy)) <= BACKLOG // 2 + 2


async def test_what_was_never_served_costs_no_place(store: JobStore) -> None:
    """A key whose jobs were given up for lateness, or canceled, is not behind for them."""
    unlucky, other = uuid7(), uuid7()
    await backlog(store, unlucky, start_deadline_s=0.05)
    await asyncio.sleep(0.1)
    assert (await sweep(store)).expired == BACKLOG
    for job in await backlog(store, unlucky):
        await store.cancel(job)
    for _ in range(6):
        await store.submit(new_job(key_id=other))
    await store.submit(new_job(key_id=unlucky))
    assert (await keys_in_order(store)).index(unlucky) <= 1


async def test_a_joined_job_gets_no_other_seeds_picture(store: JobStore) -> None:
    """Its leader takes any seed's, and finds one; it asked for its own and waits for that."""
    anyone = await store.submit(new_job("f", cache=CacheMode.ANY))
    exact = await store.submit(new_job("f"))
    easy = await store.submit(new_job("f", cache=CacheMode.ANY))
    lease = await claimed(store, new_worker())
    found = result(lease, CacheOutcome.HIT)
    others = tuple(msgspec.structs.replace(picture, seed=999) for picture in found.pictures)
    await store.finish(lease.token, msgspec.structs.replace(found, pictures=others))
    states = [(await store.get(job.id)).state for job in (anyone, exact, easy)]
    assert states == [JobState.SUCCEEDED, JobState.QUEUED, JobState.SUCCEEDED]


async def test_a_key_that_expires_between_two_looks_is_taken(store: JobStore, monkeypatch: Any) -> None:
    """By the submit that met it: no job is made without its key."""
    for rows in (PostgresRows, SqliteRows):
        monkeypatch.setattr(rows, "add_replay", _taken_once(rows.add_replay))
        monkeypatch.setattr(rows, "replay_of", _gone)
    first = await store.submit(new_job(replay=replay()))
    monkeypatch.undo()
    assert (await store.submit(new_job(replay=replay()))).id == first.id


def _taken_once(take: Any) -> Any:
    """The key is taken at the first try, and free at the second."""
    taken = iter([True])

    async def add_replay(rows: Any, new: Any) -> bool:
        return False if next(taken, False) else bool(await take(rows, new))

    return add_replay


async def _gone(_rows: Any, _key_id: Any, _key: str) -> None:
    """By the time somebody looks, it has expired."""
