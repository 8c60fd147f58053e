"""The older release's own tests, with its code, on the schema of this one and on that of a release to come."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from jobstore.migrating import Migration
from jobstore.postgres import migrate as postgres
from jobstore.sqlite import migrate as sqlite
from jobstore.sqlite.store import SqliteStore
from tests.cli.running import write_settings
from tests.services.postgres import fresh_database
from tests.upgrades.older import Older, unpack

_TESTS = ("test_life.py", "test_keys.py")
"""A job from its submit to its end, and who may do what: the tables that every release writes."""
_EXPANDS = """
-- needs: {older}
ALTER TABLE job ADD COLUMN of_a_release_to_come text;
CREATE TABLE of_a_release_to_come (id integer PRIMARY KEY);
"""
_CONTRACTS = """
-- needs: {newer}
-- contract
ALTER TABLE job DROP COLUMN of_a_release_to_come;
"""


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Older:
    """The older release."""
    return unpack(tmp_path_factory.mktemp("older"))


@pytest.fixture(scope="module")
def template(older: Older, postgres_url: str) -> Iterator[str]:
    """A database with this release's schema, and what the next one may add to it."""
    known = (*postgres.KNOWN, _to_come(postgres.KNOWN, _EXPANDS, older.newest("postgres")))

    async def migrate(url: str) -> None:
        async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as connection:
            await postgres.migrate(connection, known)

    with fresh_database(postgres_url) as url:
        asyncio.run(migrate(url))
        yield str(conninfo_to_dict(url)["dbname"])


@pytest.fixture(scope="module")
def file(older: Older, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in a file."""
    path = tmp_path_factory.mktemp("newer") / "store.db"
    known = (*sqlite.KNOWN, _to_come(sqlite.KNOWN, _EXPANDS, older.newest("sqlite")))
    asyncio.run(_migrate(path, known))
    return path


def test_the_older_releases_tests_pass_on_the_newer_schema(
    older: Older, postgres_url: str, template: str, file: Path
) -> None:
    """On both stores: what this release added, older code neither sees nor needs."""
    done = older.run(
        *("pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "newer_schema"),
        *(f"tests/contract/{name}" for name in _TESTS),
        PYTHONPATH=str(Path(__file__).parent),
        SAFELIGHT_TEST_POSTGRES=postgres_url,
        NEWER_SCHEMA=template,
        NEWER_SCHEMA_FILE=str(file),
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "passed" in done.stdout


def test_the_older_release_works_until_the_schema_contracts(older: Older, file: Path, tmp_path: Path) -> None:
    """Its own command says that it may go on; after the contraction it says what to do, and so does a start."""
    place = Path(shutil.copy(file, tmp_path / "store.db"))
    environment = write_settings(tmp_path) | {"SAFELIGHT_STORE": f"sqlite:///{place}"}
    open_still = older.run("safelight", "migrate", "--check", **environment)
    assert (open_still.returncode, "this one works on it" in " ".join(open_still.stderr.split())) == (0, True)
    expanded = (*sqlite.KNOWN, _to_come(sqlite.KNOWN, _EXPANDS, older.newest("sqlite")))
    contracted = (*expanded, _to_come(expanded, _CONTRACTS, older.newest("sqlite")))
    asyncio.run(_migrate(place, contracted))
    with closing(sqlite3.connect(place)) as connection:
        assert connection.execute("SELECT max(version) FROM schema_migration").fetchone() == (expanded[-1].version,)
    asyncio.run(_migrate(place, contracted, contract=True))
    for command in (("migrate", "--check"), ("migrate",)):
        closed = older.run("safelight", *command, **environment)
        assert (closed.returncode, "install a newer Safelight" in " ".join(closed.stderr.split())) == (1, True)


def _to_come(known: tuple[Migration, ...], sql: str, older: int) -> Migration:
    """The migration after those, for code of the schema ``older`` on."""
    version = known[-1].version + 1
    return Migration(version, f"{version:04}_to_come", sql.format(older=older, newer=known[-1].version))


async def _migrate(path: Path, known: tuple[Migration, ...], *, contract: bool = False) -> None:
    store = SqliteStore(f"sqlite:///{path}")
    await store.open()
    await store.on_database(lambda database: sqlite.migrate(database, known, contract=contract))
    await store.close()
