"""One tenant with a hundred thousand queued jobs, and another with one."""

from __future__ import annotations

import psycopg

from jobstore.ids import uuid7
from jobstore.postgres.store import PostgresStore
from tests.contract.making import claimed, new_job, new_worker, result

MANY = 100_000
# What so many submits of one key would have left behind, in one statement: each stands behind the one before it.
COPIES = """
INSERT INTO job (id, state, lane, model, batch_key, rank_at, start_tag, share_s, expected_s, request, format,
                 fingerprint, seedless_fingerprint, joinable, cache, key_id, dimensions, currency, price, reserved,
                 max_attempts, attempts_allowed)
SELECT gen_random_uuid(), state, lane, model, batch_key, rank_at + n * share_s, start_tag + n * share_s, share_s,
       expected_s, request, format, fingerprint || n, seedless_fingerprint, joinable, cache, key_id, dimensions,
       currency, 0, 0, max_attempts, attempts_allowed
FROM job, generate_series(1, %(copies)s) AS n
"""


async def test_a_hundred_thousand_jobs_of_one_key_do_not_keep_another_waiting(
    store: PostgresStore, database: str
) -> None:
    """The other's one job starts after at most one of theirs, and so does a second one that comes in mid-work."""
    many, one = uuid7(), uuid7()
    await store.submit(new_job("f", key_id=many))
    with psycopg.connect(database) as connection:
        connection.execute(COPIES, {"copies": MANY - 1})
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
