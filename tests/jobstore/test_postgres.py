"""What only PostgreSQL's store has: the usage ledger, its indexes, and how it meets a database that is away."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from jobstore.job import JobError
from jobstore.ledger import Spent
from jobstore.postgres.store import PostgresStore
from tests.contract.making import NOTHING, PRICE, claimed, new_job, new_worker, rendered, result


def rows(url: str, query: str) -> list[dict[str, Any]]:
    """All rows of a query."""
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return connection.execute(query.encode()).fetchall()


async def test_usage_has_a_row_for_each_settled_attempt(store: PostgresStore, database: str) -> None:
    """Its charges add up to what jobs were charged."""
    worker = new_worker()
    await store.submit(new_job("f"))
    await store.submit(new_job("f"))
    lease = await claimed(store, worker)
    await store.fail(lease.token, JobError(code="render_failed", message="x"), retry_in_s=0)
    await rendered(store, worker)
    await store.submit(new_job())
    lease = await claimed(store, worker)
    await store.cancel(lease.job.id)
    await store.canceled(lease.token, Spent(gpu_seconds=Decimal("0.1"), device="cpu"))
    usage = rows(database, "SELECT attempt, outcome, charged, gpu_seconds, dimensions FROM usage ORDER BY seq")
    assert [(row["attempt"], row["outcome"], row["charged"]) for row in usage] == [
        (1, "failed", NOTHING),
        (2, "succeeded", PRICE),
        (2, "succeeded", NOTHING),
        (1, "canceled", NOTHING),
    ]
    assert [row["gpu_seconds"] for row in usage] == [NOTHING, Decimal("0.5"), NOTHING, Decimal("0.1")]
    assert usage[0]["dimensions"] == {"team": "a"}
    [sums] = rows(database, "SELECT (SELECT sum(charged) FROM job) AS jobs, (SELECT sum(charged) FROM usage) AS usage")
    assert sums["jobs"] == sums["usage"]


async def test_a_claim_reads_the_queues_index(store: PostgresStore, database: str) -> None:
    """With a backlog and a history, no scan of the table."""
    with psycopg.connect(database, autocommit=True) as connection:
        job = await store.submit(new_job())
        columns = [
            row[0]
            for row in connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name = 'job' AND is_identity = 'NO'"
            )
        ]
        copied = ", ".join(
            "gen_random_uuid()" if name == "id" else "'f' || n" if name == "fingerprint" else name for name in columns
        )
        connection.execute(
            f"INSERT INTO job ({', '.join(columns)}) SELECT {copied} FROM job, generate_series(1, 5000) AS n".encode()
        )
        connection.execute("ANALYZE job")
        plan = connection.execute(
            "EXPLAIN SELECT id FROM job WHERE state = 'queued' AND leader_id IS NULL AND lane = 'default' "
            "ORDER BY rank_at, seq LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED"
        ).fetchall()
    text = "\n".join(line[0] for line in plan)
    assert "job_queue" in text
    assert "Sort" not in text
    assert job.queue_position == 1


async def test_numbers_past_32_bits_are_kept(store: PostgresStore) -> None:
    """Seeds, and amounts with nine decimals."""
    job = await store.submit(new_job(seed=2**53 - 1, price=Decimal("99999999999.123456789")))
    assert (job.request.seed, job.reserved) == (2**53 - 1, Decimal("99999999999.123456789"))


async def test_a_database_that_is_away_is_told_in_bounded_time() -> None:
    """With the reason, not just that somebody waited in vain."""
    store = PostgresStore("postgresql://127.0.0.1:1/none", wait_s=0.5)
    with pytest.raises(psycopg.OperationalError, match="refused"):
        await store.open()
    await store.close()


async def test_a_finish_with_many_pictures_is_one_transaction(store: PostgresStore, database: str) -> None:
    """A finish that fails half-way leaves the job running, with no picture."""
    job = await store.submit(new_job(n=2))
    lease = await claimed(store, new_worker())
    done = result(lease)
    doubled = type(done)(pictures=(done.pictures[0], done.pictures[0]))
    with pytest.raises(psycopg.errors.UniqueViolation):
        await store.finish(lease.token, doubled)
    assert (await store.get(job.id)).state == "running"
    assert rows(database, "SELECT * FROM picture") == []
    assert await store.finish(lease.token, done) is not None


async def test_canceled_calls_leave_no_connection_that_commits_each_statement(database: str) -> None:
    """A stream that is cut cancels whatever it awaits; the next caller's transaction must still be one."""
    store = PostgresStore(database, max_connections=2)
    await store.open()
    try:
        for turn in range(300):
            call = asyncio.create_task(store.last_event())
            for _ in range(turn % 30):
                await asyncio.sleep(0)
            while not call.done():  # a cancel scope cancels again at every await, clean-up included
                call.cancel()
                await asyncio.sleep(0)
        await store.submit(new_job(n=2))
        lease = await claimed(store, new_worker())
        done = result(lease)
        for _ in range(4):
            with pytest.raises(psycopg.errors.UniqueViolation):
                await store.finish(lease.token, type(done)(pictures=(done.pictures[0], done.pictures[0])))
        assert rows(database, "SELECT * FROM picture") == []
        assert (await store.get(lease.job.id)).charged == NOTHING
    finally:
        await store.close()
