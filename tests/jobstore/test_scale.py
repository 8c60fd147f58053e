"""One tenant with a hundred thousand queued jobs, and another with one; a long audit log."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from jobstore.audit import Actor, AuditFilter, AuditNote
from jobstore.ids import uuid7
from jobstore.job import NewJob
from jobstore.ledger import Balance
from jobstore.operating.jobs import JobFilter
from jobstore.postgres.audit import query_of
from jobstore.postgres.insert import arguments_of
from jobstore.postgres.standing import COUNTED_AT_SUBMIT
from jobstore.postgres.store import PostgresStore
from jobstore.postgres.submit import PLAIN
from tests.contract.making import PRICE, claimed, failed, new_job, new_worker, result

MANY = 100_000
# What so many submits of one key would have left behind, in one statement: each stands behind the one before it.
COPIES = """
INSERT INTO job (id, state, lane, model, batch_key, rank_at, start_tag, share_s, expected_s, request, format,
                 fingerprint, seedless_fingerprint, joinable, cache, key_id, dimensions, currency, price, reserved,
                 max_attempts, attempts_allowed)
SELECT gen_random_uuid(), state, lane, model, batch_key, rank_at + n * share_s, start_tag + n * share_s, share_s,
       expected_s, request, format, %(before)s || fingerprint || n, seedless_fingerprint, joinable, cache, key_id,
       dimensions, currency, 0, 0, max_attempts, attempts_allowed
FROM (SELECT * FROM job ORDER BY seq LIMIT 1) AS job, generate_series(1, %(copies)s) AS n
"""


async def test_a_hundred_thousand_jobs_of_one_key_do_not_keep_another_waiting(
    store: PostgresStore, database: str
) -> None:
    """The other's one job starts after at most one of theirs, and so does a second one that comes in mid-work."""
    many, one = uuid7(), uuid7()
    await store.submit(new_job("f", key_id=many))
    with psycopg.connect(database) as connection:
        connection.execute(COPIES, {"copies": MANY - 1, "before": ""})
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ANALYZE job")
    worker = new_worker()
    for _ in range(2):
        for _ in range(20):
            lease = await claimed(store, worker)
            assert lease.job.key_id == many
            await store.finish(lease.token, result(lease))
        waiting = await store.submit(new_job(key_id=one))
        assert waiting.queue_position is not None
        assert waiting.queue_position <= 2
        keys = [(await claimed(store, worker)).job.key_id for _ in range(2)]
        assert one in keys
    assert (await store.backlog()).keys[many] == MANY - 20 * 2 - 2


async def test_a_submit_reads_as_little_of_a_long_queue_as_of_a_short_one(store: PostgresStore, database: str) -> None:
    """Counted in pages of the database, which no other work on the machine changes."""
    key_id = uuid7()
    await store.submit(new_job("f", key_id=key_id))
    pages = []
    with psycopg.connect(database, autocommit=True) as connection:
        for copies in (200, 4_000):
            connection.execute(COPIES, {"copies": copies, "before": f"of {copies} "})
            connection.execute("ANALYZE job")
            pages.append(_pages_of_a_submit(connection, [new_job(key_id=key_id) for _ in range(8)]))
    assert pages[1] < 2 * pages[0]


def _pages_of_a_submit(connection: psycopg.Connection, jobs: list[NewJob]) -> int:
    """How many pages the statement that accepts the jobs looks at."""
    arguments = arguments_of((new, {"joinable": True, "reserved": new.price}) for new in jobs)
    return _pages_of(connection, PLAIN, arguments | {"counted": COUNTED_AT_SUBMIT, "wanted": len(jobs)})


def _pages_of(connection: psycopg.Connection, query: str, arguments: dict[str, Any]) -> int:
    """How many pages a statement looks at."""
    statement = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}"
    with connection.transaction(force_rollback=True):
        row = connection.execute(statement, arguments).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


OTHERS = """
INSERT INTO audit_log (actor, action, target) SELECT 'key ' || mod(n, 50), 'key.changed', 'key ' || mod(n, 100)
FROM generate_series(1, %(entries)s) AS n
"""


@pytest.mark.parametrize(
    "where", [AuditFilter(actor="NIGHT"), AuditFilter(action="lane.paused"), AuditFilter(target="default", limit=1)]
)
async def test_the_audit_log_is_asked_without_reading_it_all(
    store: PostgresStore, database: str, where: AuditFilter
) -> None:
    """By a part of who acted, by what was done, and to what: as many pages of a long log as of a short one."""
    for name in ("night ops", "ops of the night"):
        await store.audit(AuditNote(by=Actor(name=name), action="lane.paused", target="default"))
    pages = []
    with psycopg.connect(database, autocommit=True) as connection:
        for entries in (1_000, 20_000):
            connection.execute(OTHERS, {"entries": entries})
            connection.execute("VACUUM ANALYZE audit_log")
            pages.append(_pages_of(connection, *query_of(where)))
    assert pages[1] < 3 * pages[0]
    assert (await store.list_audit(where)).entries[0].actor == "ops of the night"


PUT_AWAY = """
INSERT INTO job_archive SELECT (jsonb_populate_record(job, jsonb_build_object(
    'id', gen_random_uuid(), 'seq', -n, 'fingerprint', job.fingerprint || n
))).* FROM job, generate_series(1, %(copies)s) AS n WHERE key_id = %(key_id)s
"""


async def test_many_letters_are_redriven_in_as_many_ways_to_the_server_as_few(
    store: PostgresStore, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One transaction's, put away or not: all are there, one behind the other, and each reserves its price."""
    key_id, other = uuid7(), uuid7()
    ways = 0
    executed, batches = psycopg.AsyncConnection.execute, psycopg.AsyncCursor.executemany

    def counted(method: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal ways
            ways += 1
            return method(*arguments, **options)

        return call

    for name in (key_id, other):
        await store.submit(new_job(key_id=name))
        await failed(store, new_worker())
    monkeypatch.setattr(psycopg.AsyncConnection, "execute", counted(executed))
    monkeypatch.setattr(psycopg.AsyncCursor, "executemany", counted(batches))
    found = []
    for copies in (0, 40):
        with psycopg.connect(database) as connection:
            connection.execute(PUT_AWAY, {"copies": copies, "key_id": key_id})
        ways = 0
        reached = await store.redrive(JobFilter(key_id=key_id))
        found.append((len(reached.job_ids), ways))
        assert len(set(reached.job_ids)) == len(reached.job_ids)
        if not copies:
            await failed(store, new_worker())
    assert [count for count, _ in found] == [1, 41]
    assert found[1][1] <= found[0][1] + 2
    positions = [(await store.get(job_id)).queue_position for job_id in reached.job_ids]
    assert positions == list(range(1, 42))
    assert await store.balance(key_id, "USD") == Balance(reserved=41 * PRICE)
    assert (await store.balance(other, "USD")).reserved == 0
