"""The suite that any store must pass: add a factory here, and every promise of the protocol is put to it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from jobstore.postgres.store import PostgresStore
from jobstore.protocol import JobStore
from jobstore.sqlite.store import SqliteStore
from tests.contract.emptying import empty_postgres


@pytest.fixture
def database(emptied_database: str) -> str:
    """The URL of a database with the whole schema and nothing in it."""
    empty_postgres(emptied_database)
    return emptied_database


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the whole schema, to be copied."""
    file = tmp_path_factory.mktemp("sqlite") / "store.db"

    async def migrate() -> None:
        store = SqliteStore(f"sqlite:///{file}")
        await store.open()
        await store.migrate()
        await store.close()

    asyncio.run(migrate())
    return file


@pytest.fixture
def sqlite_url(migrated_file: Path, tmp_path: Path) -> str:
    """The URL of a fresh file with the whole schema."""
    return f"sqlite:///{shutil.copy(migrated_file, tmp_path / 'store.db')}"


@pytest.fixture(params=["postgresql", "sqlite"])
def make_store(request: pytest.FixtureRequest) -> Callable[[], JobStore]:
    """Makes unopened stores that share one empty place, as several processes would."""
    if request.param == "sqlite":
        file = request.getfixturevalue("sqlite_url")
        return lambda: SqliteStore(file)
    url = request.getfixturevalue("database")
    return lambda: PostgresStore(url, max_connections=4)


@pytest.fixture
async def stores(make_store: Callable[[], JobStore]) -> AsyncIterator[tuple[JobStore, ...]]:
    """Three open stores on the same place."""
    async with AsyncExitStack() as stack:
        opened = []
        for _ in range(3):
            store = make_store()
            await store.open()
            stack.push_async_callback(store.close)
            opened.append(store)
        yield tuple(opened)


@pytest.fixture
def store(stores: tuple[JobStore, ...]) -> JobStore:
    """One of them."""
    return stores[0]


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doomed pictures may be deleted at once."""
    for room in ("postgres", "sqlite"):
        monkeypatch.setattr(f"jobstore.{room}.retention.DOOMED_GRACE_S", 0.0)


@pytest.fixture
def archive_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A purge moves away all that has ended."""
    monkeypatch.setattr("jobstore.postgres.retention.ARCHIVE_AFTER_S", 0.0)
