"""What every room's tests share: a database of their own, a broker, a folder for outputs."""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict
from xdist.remote import Producer

from jobstore.outputs import Outputs, open_outputs
from jobstore.postgres.store import PostgresStore
from tests.services.postgres import dropping_behind, fresh_database, postgres_server
from tests.services.rabbitmq import rabbitmq_server
from tests.services.sharing import InGroups, share_servers, sort_tests

# One thread for torch, here and in all that tests start: tiny tensors gain nothing from more, and tests share cores.
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Before ``-n`` starts its processes: servers for all of them."""
    stack = ExitStack()
    config.add_cleanup(stack.close)
    share_servers(stack)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> InGroups:
    """Which tests stay together under ``-n``."""
    config.option.loadscopereorder = False
    return InGroups(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under ``-n``: what takes longest comes first."""
    if hasattr(config, "workerinput"):
        sort_tests(items)


def pytest_collection_finish() -> None:
    """Garbage collections don't look through thousands of tests, of which none becomes garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for an embedded PostgreSQL. pytest's own are closed to its user whenever another run begins."""
    with tempfile.TemporaryDirectory(prefix="safelight-test-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server's URL."""
    with tempfile.TemporaryDirectory(prefix="safelight-test-") as folder, postgres_server(Path(folder)) as url:
        yield url


@pytest.fixture(scope="session")
def migrated(postgres_url: str) -> Iterator[str]:
    """The name of a database with the whole schema, to be copied."""

    async def migrate(url: str) -> None:
        store = PostgresStore(url)
        await store.open()
        await store.migrate()
        await store.close()

    with fresh_database(postgres_url) as url:
        asyncio.run(migrate(url))
        yield str(conninfo_to_dict(url)["dbname"])


@pytest.fixture(scope="session")
def drop_behind(postgres_url: str) -> Iterator[Callable[[str], object]]:
    """Drops databases while other tests run: most tests would wait for that longer than they take."""
    with dropping_behind(postgres_url) as drop:
        yield drop


@pytest.fixture
def database(postgres_url: str, migrated: str, drop_behind: Callable[[str], object]) -> Iterator[str]:
    """The URL of a fresh database with the whole schema."""
    with fresh_database(postgres_url, migrated, drop_behind) as url:
        yield url


@pytest.fixture(scope="session")
def emptied_database(postgres_url: str, migrated: str) -> Iterator[str]:
    """A database for the tests that only need it to be empty, one after the other: making one takes a second."""
    with fresh_database(postgres_url, migrated) as url:
        yield url


@pytest.fixture
async def store(database: str) -> AsyncIterator[PostgresStore]:
    """An open store on a fresh database."""
    store = PostgresStore(database)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    """Outputs in a folder of the test's own."""
    return open_outputs((tmp_path / "outputs").as_uri())


@pytest.fixture(scope="session")
def rabbitmq_url() -> Iterator[str]:
    """A RabbitMQ broker's URL. Tests share it: they name lanes of their own."""
    with rabbitmq_server() as url:
        yield url
