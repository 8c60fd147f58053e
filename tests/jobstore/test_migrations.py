"""Migrations: once each, by many at once, and refused when they don't fit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from importlib.resources import files
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from jobstore.errors import MigrationError
from jobstore.ids import uuid7
from jobstore.job import JobState
from jobstore.ledger import Balance
from jobstore.migrating import Migration
from jobstore.postgres.migrate import KNOWN, migrate
from jobstore.postgres.store import PostgresStore
from tests.contract.making import claimed, new_job, new_worker, result
from tests.services.postgres import fresh_database


@pytest.fixture
def empty(postgres_url: str) -> Iterator[str]:
    """A database with nothing in it."""
    with fresh_database(postgres_url) as url:
        yield url


@pytest.fixture
async def stores(empty: str) -> AsyncIterator[list[PostgresStore]]:
    """Four processes' stores on it."""
    opened = [PostgresStore(empty, max_connections=2) for _ in range(4)]
    for store in opened:
        await store.open()
    yield opened
    for store in opened:
        await store.close()


async def test_four_processes_at_once_apply_each_once(stores: list[PostgresStore]) -> None:
    """One does it all, the others find it done."""
    applied = await asyncio.gather(*(store.migrate() for store in stores))
    assert sorted(applied, key=len)[:3] == [()] * 3
    assert max(applied, key=len) == tuple(migration.name for migration in KNOWN)
    for store in stores:
        await store.ping()


async def test_a_store_without_its_schema_is_not_ready(stores: list[PostgresStore]) -> None:
    """And says what to do."""
    with pytest.raises(MigrationError, match="safelight migrate"):
        await stores[0].ping()


async def test_a_changed_file_is_refused(stores: list[PostgresStore], empty: str) -> None:
    """Nobody knows what the database has then."""
    await stores[0].migrate()
    _execute(empty, "UPDATE schema_migration SET checksum = 'other' WHERE version = 1")
    for call in (stores[0].migrate, stores[0].ping):
        with pytest.raises(MigrationError, match="changed"):
            await call()


async def test_a_newer_database_is_refused(stores: list[PostgresStore], empty: str) -> None:
    """An old program must not write to it."""
    await stores[0].migrate()
    _execute(empty, "INSERT INTO schema_migration VALUES (9999, '9999_future', 'x')")
    with pytest.raises(MigrationError, match="newer"):
        await stores[0].migrate()


async def test_a_broken_file_changes_nothing(empty: str) -> None:
    """All or none."""
    broken = (Migration(1, "0001_fine", "CREATE TABLE fine ()"), Migration(2, "0002_bad", "CREATE TABLE"))
    async with await psycopg.AsyncConnection.connect(empty, row_factory=psycopg.rows.dict_row) as connection:
        with pytest.raises(psycopg.errors.SyntaxError):
            await migrate(connection, broken)
        await connection.rollback()
        left = await (await connection.execute("SELECT to_regclass('fine') AS name")).fetchone()
    assert left == {"name": None}


def test_files_are_numbered_without_a_gap() -> None:
    """From 1 upwards, each once."""
    assert [migration.version for migration in KNOWN] == list(range(1, len(KNOWN) + 1))
    names = [file.name for file in (files("jobstore.postgres") / "migrations").iterdir() if "__" not in file.name]
    assert len(names) == len(KNOWN)


def _execute(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(statement.encode())


OLD_JOB = """
INSERT INTO job (id, state, lane, model, batch_key, rank_at, request, format, fingerprint, seedless_fingerprint,
                 joinable, cache, leader_id, key_id, currency, price, reserved, charged, max_attempts,
                 attempts_allowed, finished_at)
VALUES (%(id)s, %(state)s, 'default', 'm', 'b', clock_timestamp() + make_interval(secs => %(rank)s),
        '{"model": "m", "prompt": "p", "width": 64, "height": 64, "steps": 4, "seed": 1, "cache": "use"}',
        'png', %(print)s, %(print)s,
        true, %(cache)s, %(leader)s, %(key)s, 'USD', 0.1, %(reserved)s, %(charged)s, 3, 3, %(finished)s)
"""


async def test_jobs_of_the_first_schema_go_on(empty: str) -> None:
    """What was queued is claimed in its old order, before what comes in; who joined still follows; money agrees."""
    async with await psycopg.AsyncConnection.connect(empty, row_factory=dict_row) as connection:
        await migrate(connection, KNOWN[:1])
    key, first, second, joined, done = (uuid7() for _ in range(5))
    waiting: dict[str, Any] = {
        "state": "queued",
        "cache": "miss",
        "leader": None,
        "key": key,
        "charged": 0,
        "finished": None,
    }
    rows = [
        waiting | {"id": second, "rank": -1, "print": "b", "reserved": Decimal("0.1")},
        waiting | {"id": first, "rank": -2, "print": "a", "reserved": Decimal("0.1")},
        waiting | {"id": joined, "rank": 2, "print": "a", "reserved": 0, "cache": "joined", "leader": first},
        waiting
        | {"id": done, "state": "succeeded", "rank": 0, "print": "c", "reserved": 0, "charged": Decimal("0.1")}
        | {"finished": datetime.now(UTC)},
    ]
    with psycopg.connect(empty) as connection:
        for row in rows:
            connection.execute(OLD_JOB.encode(), row)
    store = PostgresStore(empty)
    await store.open()
    try:
        assert await store.migrate() == tuple(migration.name for migration in KNOWN[1:])
        assert await store.balance(key, "USD") == Balance(reserved=Decimal("0.2"), charged=Decimal("0.1"))
        later = await store.submit(new_job(key_id=uuid7()))
        worker = new_worker()
        leases = [await claimed(store, worker) for _ in range(3)]
        assert [lease.job.id for lease in leases] == [first, second, later.id]
        await store.finish(leases[0].token, result(leases[0]))
        assert (await store.get(joined)).state is JobState.SUCCEEDED
        assert (await store.get(done)).charged == Decimal("0.1")
        assert await store.balance(key, "USD") == Balance(reserved=Decimal("0.1"), charged=Decimal("0.2"))
    finally:
        await store.close()
