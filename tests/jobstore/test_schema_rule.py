"""Which releases work on which schema: the rule by itself, and on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from jobstore.errors import MigrationError
from jobstore.migrating import Applied, Migration, Standing, due, migrations, standing
from jobstore.postgres import migrate as postgres
from jobstore.postgres.store import PostgresStore
from jobstore.protocol import JobStore
from jobstore.sqlite import migrate as sqlite
from jobstore.sqlite.store import SqliteStore
from tests.services.postgres import fresh_database

OLD = (Migration(1, "0001_a", "CREATE TABLE a (id integer)"),)
EXPANDED = (*OLD, Migration(2, "0002_b", "-- needs: 1\nALTER TABLE a ADD COLUMN b integer"))
CONTRACTED = (*EXPANDED, Migration(3, "0003_c", "-- needs: 2\n-- contract\nDROP TABLE c"))
NEXT = (*CONTRACTED, Migration(4, "0004_d", "-- needs: 3\nCREATE TABLE d (id integer)"))


def applied(known: tuple[Migration, ...]) -> dict[int, Applied]:
    """As a database has them."""
    return {one.version: Applied(one.version, one.name, one.checksum, one.needs) for one in known}


def names(found: list[Migration]) -> list[str]:
    """Of migrations."""
    return [migration.name for migration in found]


def test_older_code_goes_on_where_all_newer_migrations_say_so() -> None:
    """And is refused, with what to do, below what any of them needs."""
    assert standing(applied(EXPANDED), OLD) == Standing((), (), ("0002_b",))
    assert standing(applied(CONTRACTED), EXPANDED).ahead == ("0003_c",)
    with pytest.raises(MigrationError, match=r"0003_c, which needs code of schema 2 or newer, and this is of schema 1"):
        standing(applied(CONTRACTED), OLD)
    with pytest.raises(MigrationError, match="install a newer Safelight"):
        standing(applied(NEXT), EXPANDED)


def test_a_migration_that_says_nothing_closes_the_schema_to_older_code() -> None:
    """So does one of a release that noted nothing."""
    silent = (*OLD, Migration(2, "0002_b", "SELECT 1"))
    with pytest.raises(MigrationError, match="schema 2 or newer"):
        standing(applied(silent), OLD)
    unnoted = applied(OLD) | {2: Applied(2, "0002_b", "x", None)}
    with pytest.raises(MigrationError, match="schema 2 or newer"):
        standing(unnoted, OLD)


def test_what_contracts_waits_to_be_asked_for() -> None:
    """This release works without it; a later one, or an empty database, has it applied in its turn."""
    assert standing(applied(OLD), CONTRACTED) == Standing(("0002_b",), ("0003_c",), ())
    assert names(due(applied(OLD), CONTRACTED, contract=False)) == ["0002_b"]
    assert names(due(applied(EXPANDED), CONTRACTED, contract=False)) == []
    assert names(due(applied(EXPANDED), CONTRACTED, contract=True)) == ["0003_c"]
    assert names(due(applied(EXPANDED), NEXT, contract=False)) == ["0003_c", "0004_d"]
    assert names(due({}, CONTRACTED, contract=False)) == ["0001_a", "0002_b", "0003_c"]


def test_newer_code_and_a_schema_of_another_line_are_refused() -> None:
    """As are gaps: nobody knows what such a database has."""
    assert standing(applied(OLD), EXPANDED).lacking == ("0002_b",)
    beside = applied(OLD) | {9: Applied(9, "0009_x", "x", 1)}
    with pytest.raises(MigrationError, match="one line"):
        standing(beside, EXPANDED)


@pytest.mark.parametrize("package", ["jobstore.postgres", "jobstore.sqlite"])
def test_every_new_migration_says_what_it_needs(package: str) -> None:
    """From the one on that came after the rule; those that contract have a release between."""
    known = migrations(package)
    first = 10 if package == "jobstore.postgres" else 9
    for before, one in pairwise(known):
        if one.version < first:
            continue
        assert "-- needs: " in one.sql, one.name
        assert one.needs <= before.version, one.name


@pytest.fixture(params=["postgresql", "sqlite"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[JobStore]:
    """An open store without a schema."""
    store: JobStore
    if request.param == "sqlite":
        store = SqliteStore(f"sqlite:///{tmp_path / 'store.db'}")
        await store.open()
        yield store
        await store.close()
        return
    with fresh_database(request.getfixturevalue("postgres_url")) as url:
        store = PostgresStore(url, max_connections=2)
        await store.open()
        yield store
        await store.close()


async def test_stores_keep_what_migrations_need(opened: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of a release that noted nothing gets it with the next migration."""
    if isinstance(opened, PostgresStore):
        # As the release before the rule made it.
        await opened.on_connection(lambda c: c.execute(postgres._TABLE.encode()), together=True)
        await opened.on_connection(lambda c: postgres.migrate(c, EXPANDED), together=True)
        with pytest.raises(MigrationError):  # the real ones are others
            await opened.ping()
        for known in (OLD, EXPANDED):
            found = await opened.on_connection(lambda c, k=known: postgres.read_standing(c, k))  # type: ignore[misc]
            assert found.ahead == tuple(names(list(EXPANDED[len(known) :])))
    else:
        assert isinstance(opened, SqliteStore)
        await opened.on_database(lambda d: d.execute(sqlite._TABLE))
        await opened.on_database(lambda d: sqlite.migrate(d, EXPANDED))
        for known in (OLD, EXPANDED):
            found = await opened.on_database(lambda d, k=known: sqlite.read_standing(d, k))  # type: ignore[misc]
            assert found.ahead == tuple(names(list(EXPANDED[len(known) :])))
