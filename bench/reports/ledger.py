"""A ledger as a year of work leaves it: skewed keys, teams, models and dimensions, failures, hits and joined jobs."""

from __future__ import annotations

import time
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

KEYS, TEAMS, EXPERIMENTS = 60, 12, 40
_BATCH = 500_000

# Keys that secrets open: (name, team). The digests are of nothing.
_KEYS = """
INSERT INTO api_key (id, name, secret_hash, hint, admin, team, customer)
SELECT md5('key' || n)::uuid, 'key ' || n, 'bench ' || n, '…', false, 'team-' || n %% %(teams)s,
       CASE WHEN n %% 3 = 0 THEN 'customer-' || n %% 5 END
FROM generate_series(0, %(keys)s::integer - 1) AS n ON CONFLICT DO NOTHING
"""
# The cube of a random number: the first have most. Days have their hours.
_ROWS = """
WITH drawn AS MATERIALIZED (
    SELECT n, floor(%(keys)s * power(random(), 3))::integer AS key_n, floor(4 * power(random(), 2))::integer AS model_n,
           random() AS luck, random() AS size, floor(%(experiments)s * power(random(), 3))::integer AS experiment_n,
           now() - interval '1 second' * %(seconds)s * (1 - n / %(count)s::double precision)
               + interval '1 second' * 10000 * sin(n * 6.283185307 * %(days)s / %(count)s::double precision) AS at
    FROM generate_series(%(first)s::integer, %(last)s::integer) AS n
)
INSERT INTO usage (job_id, attempt, token, key_id, team, customer, lane, model, device, worker_id, outcome, error_code,
                   cache, gpu_seconds, price, charged, currency, dimensions, at, pictures, wanted_at, batch_rows)
SELECT md5('job' || n)::uuid, 1, CASE WHEN luck < 0.8 THEN n END, md5('key' || key_n)::uuid,
       'team-' || key_n %% %(teams)s,
       CASE WHEN key_n %% 3 = 0 THEN 'customer-' || key_n %% 5 END, 'lane-' || model_n %% 3, 'model-' || model_n,
       CASE WHEN luck < 0.75 THEN 'cuda:' || n %% 8 ELSE '' END, NULL,
       CASE WHEN luck < 0.02 THEN 'failed' ELSE 'succeeded' END, CASE WHEN luck < 0.02 THEN 'render_failed' END,
       CASE WHEN luck < 0.75 THEN 'miss' WHEN luck < 0.8 THEN 'joined' ELSE 'hit' END,
       CASE WHEN luck < 0.75 THEN round((0.5 + 8 * size)::numeric, 6) ELSE 0 END,
       round((0.002 + 0.05 * size)::numeric, 9),
       CASE WHEN luck BETWEEN 0.02 AND 0.75 THEN round((0.002 + 0.05 * size)::numeric, 9) ELSE 0 END, 'USD',
       jsonb_build_object('experiment', 'e' || experiment_n, 'project', 'p' || key_n %% 7,
                          'environment', (ARRAY['live', 'staging', 'test'])[1 + n %% 3]),
       at, CASE WHEN luck < 0.02 THEN 0 ELSE 1 END,
       CASE WHEN luck BETWEEN 0.02 AND 0.8 THEN at - interval '1 second' * (2 + 60 * size * size) END,
       CASE WHEN luck < 0.75 THEN 1 + 3 * size END
FROM drawn
"""
_INDEXES = "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'usage' AND indexname <> 'usage_pkey'"
# The jobs of the ledger, put away long since: reports must not need them.
_ARCHIVE = """
INSERT INTO job_archive (seq, id, state, lane, model, batch_key, rank_at, request, format, fingerprint,
                         seedless_fingerprint, joinable, cache, key_id, team, dimensions, currency, price, charged,
                         gpu_seconds, max_attempts, attempts_allowed, created_at, started_at, finished_at)
SELECT -token, job_id, 'succeeded', lane, model, 'b', 0, '{"prompt": "a red circle", "n": 1}', 'png', job_id::text,
       job_id::text, false, cache, key_id, team, dimensions, currency, price, charged, gpu_seconds, 3, 3,
       coalesce(wanted_at, at), coalesce(wanted_at, at), at
FROM usage WHERE token BETWEEN %(first)s AND %(last)s AND outcome = 'succeeded'
"""


def fill(url: str, count: int, archived: int, days: int) -> float:
    """Write ``count`` rows of the ledger over the last ``days``, and the jobs of so many; the seconds that it took."""
    started = time.perf_counter()
    sizes: dict[str, Any] = {
        "keys": KEYS, "teams": TEAMS, "experiments": EXPERIMENTS, "count": count, "days": days,
        "seconds": 86_400 * days,
    }  # fmt: skip
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        connection.execute(_KEYS, sizes)
        indexes = connection.execute(_INDEXES).fetchall()
        for name, _ in indexes:
            connection.execute(SQL("DROP INDEX {}").format(Identifier(name)))
        for first in range(1, count + 1, _BATCH):
            connection.execute(_ROWS, sizes | {"first": first, "last": min(count, first + _BATCH - 1)})
        for _, definition in indexes:
            connection.execute(definition)
        for first in range(1, archived + 1, _BATCH):
            connection.execute(_ARCHIVE, {"first": first, "last": min(archived, first + _BATCH - 1)})
        connection.execute("VACUUM ANALYZE usage")
    return time.perf_counter() - started
