"""Migrations: once each, by many at once, and refused when they don't fit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from importlib.resources import files

import psycopg
import pytest

from jobstore.errors import MigrationError
from jobstore.migrating import Migration
from jobstore.postgres.migrate import KNOWN, migrate
from jobstore.postgres.store import PostgresStore
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
