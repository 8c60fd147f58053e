"""Beats: what they say of leases, and when they must stop."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from uuid import uuid4

from actors.engine import Engine
from actors.leases import Leases
from actors.paces import Paces
from jobstore.job import JobState
from jobstore.postgres.store import PostgresStore
from jobstore.protocol import Worker
from safelight.config import WorkerSettings
from tests.actors.harness import new_job

LANE = "beats"
WORKER = Worker(id=uuid4(), host="here", pid=1, device="cpu", lanes=(LANE,))


def leases(store: PostgresStore, engine: Engine, **settings: Any) -> Leases:
    """The leases of one worker."""
    return Leases(store, WORKER, engine, WorkerSettings(**settings), Paces())


async def test_dead_engine_does_not_beat(store: PostgresStore) -> None:
    """Its jobs go to others, and what it may yet render is thrown away."""
    await store.submit(new_job(LANE))
    lease = await store.claim(WORKER, [LANE])
    assert lease is not None
    process = leases(store, Engine({}, device="cpu"), lease_s=0.05)  # never started, so not alive
    held = process.hold(lease, time.monotonic())
    await asyncio.sleep(0.1)
    await process.beat()
    assert held.lost
    swept = await store.sweep(lease_s=0.05, ring_again_s=60, max_rescues=3)
    assert (swept.rescued, swept.ring) == (1, (LANE,))


async def test_beat_keeps_the_lease_and_brings_the_cancel(store: PostgresStore, engine: Engine) -> None:
    """A beaten lease survives a sweep."""
    job = await store.submit(new_job(LANE))
    lease = await store.claim(WORKER, [LANE])
    assert lease is not None
    process = leases(store, engine)
    held = process.hold(lease, time.monotonic())
    await process.beat()
    assert not held.unwanted
    assert (await store.sweep(lease_s=10, ring_again_s=60, max_rescues=3)).rescued == 0
    await store.cancel(job.id)
    await process.beat()
    assert held.cancel_requested
    assert not held.lost


async def test_store_away_for_longer_than_a_lease_loses_all(
    database: str, store: PostgresStore, engine: Engine
) -> None:
    """Nobody can say any more whose the jobs are."""
    await store.submit(new_job(LANE))
    lease = await store.claim(WORKER, [LANE])
    assert lease is not None
    closed = PostgresStore(database)  # never opened: every call fails
    process = leases(closed, engine, lease_s=0.05)
    held = process.hold(lease, time.monotonic())
    await asyncio.sleep(0.1)
    await process.beat()
    assert held.lost
    assert process.overdue


async def test_lease_that_nobody_works_on_is_handed_back(store: PostgresStore, engine: Engine) -> None:
    """It comes from a claim whose answer was lost; a beat alone would keep it for ever."""
    job = await store.submit(new_job(LANE))
    assert await store.claim(WORKER, [LANE]) is not None
    process = leases(store, engine, lease_s=0.05)
    await process.beat()
    assert (await store.get(job.id)).state is JobState.RUNNING
    for _ in range(200):  # a beat is given up within a lease, and this one's is short
        await asyncio.sleep(0.1)
        await process.beat()
        if (await store.get(job.id)).state is JobState.QUEUED:
            return
    raise AssertionError("the lease was kept")


async def test_a_worker_leaves_after_its_last_beat(store: PostgresStore, engine: Engine) -> None:
    """A beat that is under way at the stop is waited for: it would make the worker known again after it has left."""
    process, go_on, under_way = leases(store, engine), asyncio.Event(), asyncio.Event()
    beat = store.beat

    async def slowly(*arguments: Any) -> Any:
        under_way.set()
        await go_on.wait()
        return await beat(*arguments)

    store.beat = slowly  # type: ignore[method-assign,assignment]
    beating = asyncio.create_task(process.run())
    await under_way.wait()
    process.end()
    await asyncio.sleep(0)
    assert not beating.done()
    go_on.set()
    await beating
    await store.leave(WORKER.id)
    assert await store.workers(60) == ()
