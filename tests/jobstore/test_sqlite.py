"""What only SQLite's store has: a file, one writer at a time, and no server that could be away."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from jobstore.audit import AuditFilter
from jobstore.errors import MigrationError
from jobstore.registry import open_store
from jobstore.sqlite.audit import query_of
from jobstore.sqlite.store import SqliteStore
from tests.contract.making import claimed, new_job, new_worker, rendered, result

SUBMIT_FOR_EVER = """
import asyncio, sys
from jobstore.sqlite.store import SqliteStore
from tests.contract.making import new_job

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    while True:
        print((await store.submit(new_job())).id, flush=True)

asyncio.run(main())
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the store is to be, in a folder that isn't there yet."""
    return tmp_path / "a folder" / "store.db"


@pytest.fixture
async def store(file: Path) -> AsyncIterator[SqliteStore]:
    """An open store with its schema."""
    store = SqliteStore(f"sqlite:///{file}")
    await store.open()
    await store.migrate()
    yield store
    await store.close()


def rows(file: Path, query: str) -> list[tuple[object, ...]]:
    """All rows of a query."""
    with closing(sqlite3.connect(file, timeout=10)) as connection:
        return connection.execute(query).fetchall()


def test_a_file_is_named_by_its_url(file: Path) -> None:
    """A host is refused, and so is a URL that names no file."""
    assert isinstance(open_store(f"sqlite:///{file}"), SqliteStore)
    for wrong in ("sqlite://host/file.db", "sqlite:///", "sqlite://"):
        with pytest.raises(ValueError, match="sqlite:///"):
            SqliteStore(wrong)


async def test_a_file_is_made_where_there_is_none(store: SqliteStore, file: Path) -> None:
    """With its folder; a second store finds what the first wrote."""
    job = await store.submit(new_job())
    other = SqliteStore(f"sqlite:///{file}")
    await other.open()
    assert await other.migrate() == ()
    await other.ping()
    assert await other.get(job.id) == job
    await other.close()


async def test_a_file_without_its_schema_is_not_ready(tmp_path: Path) -> None:
    """And says what to do."""
    store = SqliteStore(f"sqlite:///{tmp_path / 'empty.db'}")
    await store.open()
    with pytest.raises(MigrationError, match="safelight migrate"):
        await store.ping()
    await store.close()


async def test_a_schema_that_does_not_fit_is_refused(store: SqliteStore, file: Path) -> None:
    """Changed after it was applied, or newer than this program."""
    newer = "INSERT INTO schema_migration (version, name, checksum) VALUES (9999, '9999_future', 'x')"
    changed = "UPDATE schema_migration SET checksum = 'other' WHERE version = 1"
    for statement, word in ((newer, "newer"), (changed, "changed")):
        with closing(sqlite3.connect(file, timeout=10)) as connection, connection:
            connection.execute("DELETE FROM schema_migration WHERE version = 9999")
            connection.execute(statement)
        for call in (store.migrate, store.ping):
            with pytest.raises(MigrationError, match=word):
                await call()


async def test_processes_that_migrate_at_once_apply_each_once(file: Path) -> None:
    """One does it all, the others find it done."""
    stores = [SqliteStore(f"sqlite:///{file}") for _ in range(4)]
    for store in stores:
        await store.open()
    applied = await asyncio.gather(*(store.migrate() for store in stores))
    assert sorted(applied, key=len)[:3] == [()] * 3
    assert len(max(applied, key=len)) >= 1
    for store in stores:
        await store.ping()
        await store.close()


async def test_a_claim_reads_the_queues_index(store: SqliteStore, file: Path) -> None:
    """No sort, whatever the history."""
    for _ in range(3):
        await store.submit(new_job())
        await rendered(store, new_worker())
    where = "state = 'queued' AND leader_id IS NULL AND lane = 'default'"
    query = f"SELECT id FROM job WHERE {where} ORDER BY rank_at, seq LIMIT 1"
    plan = " ".join(str(row[-1]) for row in rows(file, f"EXPLAIN QUERY PLAN {query}"))
    assert "job_queue" in plan
    assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize("where", [AuditFilter(actor="ops"), AuditFilter(action="a"), AuditFilter(target="b")])
async def test_the_audit_log_is_asked_along_an_index(file: Path, store: SqliteStore, where: AuditFilter) -> None:
    """Whoever acted, whatever was done and to what."""
    await store.ping()
    query, arguments = query_of(where)
    with closing(sqlite3.connect(file)) as connection:
        plan = [str(row[-1]) for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", arguments)]
    assert not [step for step in plan if "SCAN audit_log" in step and "INDEX" not in step], plan
    assert any("audit_log_" in step for step in plan), plan


async def test_numbers_past_32_bits_are_kept(store: SqliteStore) -> None:
    """Seeds, and amounts with nine decimals, which a binary fraction can't hold."""
    job = await store.submit(new_job(seed=2**53 - 1, price=Decimal("99999999999.123456789")))
    assert (job.request.seed, job.reserved) == (2**53 - 1, Decimal("99999999999.123456789"))
    assert (await store.get(job.id)).reserved == Decimal("99999999999.123456789")


async def test_a_finish_with_many_pictures_is_one_transaction(store: SqliteStore, file: Path) -> None:
    """A finish that fails half-way leaves the job running, with no picture."""
    job = await store.submit(new_job(n=2))
    lease = await claimed(store, new_worker())
    done = result(lease)
    with pytest.raises(sqlite3.IntegrityError):
        await store.finish(lease.token, type(done)(pictures=(done.pictures[0], done.pictures[0])))
    assert (await store.get(job.id)).state == "running"
    assert rows(file, "SELECT * FROM picture") == []
    assert await store.finish(lease.token, done) is not None


async def test_canceled_calls_leave_no_transaction_open(store: SqliteStore, file: Path) -> None:
    """A stream that is cut cancels whatever it awaits; others must be able to write, and all or nothing is written."""
    submitted = 0
    for turn in range(100):
        call = asyncio.create_task(store.submit(new_job()))
        for _ in range(turn % 30):
            await asyncio.sleep(0)
        while not call.done():  # a cancel scope cancels again at every await, clean-up included
            call.cancel()
            await asyncio.sleep(0)
        submitted += not call.cancelled()
    await store.submit(new_job())
    [(jobs, events)] = rows(file, "SELECT (SELECT count(*) FROM job), (SELECT count(*) FROM job_event)")
    assert jobs == events
    assert isinstance(jobs, int)
    assert jobs > submitted


async def test_a_file_that_is_locked_is_told_in_bounded_time(store: SqliteStore, file: Path) -> None:
    """By whoever holds it for too long; afterwards all is well."""
    hasty = SqliteStore(f"sqlite:///{file}", wait_s=0.2)
    await hasty.open()
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            await hasty.submit(new_job())
        assert await hasty.last_event() == 0
        other.execute("ROLLBACK")
    assert (await hasty.submit(new_job())).queue_position == 1
    await hasty.close()


async def test_what_was_answered_survives_a_kill(store: SqliteStore, file: Path) -> None:
    """A process is killed in the midst of its submits: every job that it told of is there, with its event."""
    place = Path(__file__).parents[2]
    with subprocess.Popen(  # noqa: ASYNC220 - it is killed a moment later
        [sys.executable, "-c", SUBMIT_FOR_EVER, f"sqlite:///{file}"], stdout=subprocess.PIPE, text=True, cwd=place
    ) as process:
        assert process.stdout is not None
        told = [process.stdout.readline().strip() for _ in range(20)]
        os.kill(process.pid, signal.SIGKILL)
        told += process.stdout.read().split()
    kept = {str(row[0]) for row in rows(file, "SELECT id FROM job")}
    assert set(told) <= kept
    assert rows(file, "SELECT count(*) FROM job_event") == [(len(kept),)]
    for _ in kept:
        await rendered(store, new_worker())
    assert await store.claim(new_worker(), ["default"]) is None
