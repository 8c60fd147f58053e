"""Thirty-two threads settle for four keys on PostgreSQL: none waits for another for ever, and no cent is lost."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from decimal import Decimal
from uuid import UUID

import psycopg
from msgspec.structs import replace

from jobstore.ids import uuid7
from jobstore.job import CacheOutcome, Job, JobError, Route
from jobstore.ledger import Balance, Spent
from jobstore.operating.jobs import JobFilter
from jobstore.postgres.store import PostgresStore
from jobstore.protocol import JobStore, Lease
from tests.contract.making import NOTHING, new_job, new_worker, result, sweep

THREADS = 32
ROUNDS = 12
KEYS = tuple(uuid7() for _ in range(4))
PRICES = tuple(Decimal(text) for text in ("0.1", "0.2", "0.000000001", "17.123456789"))
SPENT = Spent(gpu_seconds=Decimal("0.1"), device="cpu")


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    """A store with one connection: a process of its own."""
    store = PostgresStore(url, max_connections=1, wait_s=60)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def test_32_threads_settle_for_four_keys(database: str) -> None:
    """Pictures that many ask for, so that one settlement pays for several keys; every way to end."""
    before = _deadlocks(database)
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(lambda number: asyncio.run(_live(database, number)), range(THREADS)))
    asyncio.run(_settle_the_rest(database))
    assert _deadlocks(database) == before
    asyncio.run(_compare(database))


async def _live(url: str, number: int) -> None:
    chance = random.Random(number)
    worker = new_worker()
    async with opened(url) as store:
        for _ in range(ROUNDS):
            for _ in range(2):
                await _submit(store, chance)
            lease = await store.claim(worker, ["default"])
            if lease is not None:
                await _settle(store, lease, chance)


async def _submit(store: JobStore, chance: random.Random) -> None:
    fingerprint = f"f{chance.randrange(6)}" if chance.random() < 0.7 else None
    late = -10.0 if chance.random() < 0.1 else None
    new = new_job(fingerprint, price=chance.choice(PRICES), key_id=chance.choice(KEYS), deadline_s=late)
    if chance.random() < 0.4:
        new = replace(new, fallbacks=(_route(f"f{chance.randrange(6)}", chance.choice(PRICES)),))
    job = await store.submit(new)
    if chance.random() < 0.2:
        await store.cancel(job.id)


def _route(fingerprint: str, price: Decimal) -> Route:
    """To a picture that others ask for by themselves."""
    new = new_job(fingerprint, model="other")
    return Route(
        request=new.request,
        lane=new.lane,
        batch_key=new.batch_key,
        fingerprint=fingerprint,
        seedless_fingerprint=new.seedless_fingerprint,
        price=price,
    )


async def _settle(store: JobStore, lease: Lease, chance: random.Random) -> None:
    way = chance.choice(["finish", "finish", "finish", "found", "fail", "later", "own", "release", "cancel", "die"])
    if way in ("finish", "found"):
        await store.finish(lease.token, result(lease, CacheOutcome.HIT if way == "found" else CacheOutcome.MISS))
    elif way == "release":
        await store.release(lease.token, SPENT)
    elif way == "cancel":
        await store.cancel(lease.job.id)
        await store.canceled(lease.token, SPENT)
    elif way == "die":
        await sweep(store, lease_s=0)
    else:
        code = "deadline_exceeded" if way == "own" else "render_failed"
        await store.fail(lease.token, JobError(code=code, message="x"), 0 if way == "later" else None, SPENT)


async def _settle_the_rest(url: str) -> None:
    async with opened(url) as store:
        await sweep(store, lease_s=0)
        worker = new_worker()
        while (lease := await store.claim(worker, ["default"])) is not None:
            await store.finish(lease.token, result(lease))


def _deadlocks(url: str) -> int:
    """How many the server has resolved, once all connections have said what they counted."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    give_up = time.monotonic() + 30
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(others).fetchone() != (0,) and time.monotonic() < give_up:
            time.sleep(0.05)
        row = connection.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
    assert row is not None
    return int(row[0])


async def _compare(url: str) -> None:
    """Balances with the jobs, and with the ledger, to the last decimal."""
    async with opened(url) as store:
        charged = NOTHING
        for key_id in KEYS:
            jobs = await _jobs_of(store, key_id)
            assert jobs
            assert all(job.state.terminal for job in jobs)
            paid = sum((job.charged for job in jobs), NOTHING)
            booked = sum([row.charged for job in jobs for row in await store.usage(job.id)], NOTHING)
            assert await store.balance(key_id, "USD") == Balance(charged=paid) == Balance(charged=booked)
            charged += paid
        assert charged > 0


async def _jobs_of(store: JobStore, key_id: UUID) -> list[Job]:
    jobs: list[Job] = []
    cursor = None
    while True:
        page = await store.list_jobs(JobFilter(key_id=key_id, limit=200, cursor=cursor))
        jobs += page.jobs
        cursor = page.next_cursor
        if cursor is None:
            return jobs
