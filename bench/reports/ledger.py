"""A ledger as a year of work leaves it: skewed keys, teams, models and dimensions, failures, hits and joined jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier
from rich.progress import Progress

KEYS, TEAMS, EXPERIMENTS = 60, 12, 40
_BATCH = 500_000

# Keys that secrets open: (name, team). The digests are of nothing.
_KEYS = """
INSERT INTO api_key (id, name, secret_hash, hint, admin, team, customer)
SELECT md5('key' || n)::uuid, 'key ' || n, 'bench ' || n, '…', false, 'team-' || n %% %(teams)s,
       CASE WHEN n %% 3 = 0 THEN 'customer-' || n %% 5 END
FROM generate_series(0, %(keys)s::integer - 1) AS n ON CONFLICT DO NOTHING
"""
# The cube of a random number: the first have most. Drawn once for a batch, and written as often as there are batches.
_DRAW = """
CREATE TEMPORARY TABLE drawn AS
SELECT n, md5('key' || key_n)::uuid AS key_id, 'team-' || key_n %% %(teams)s AS team,
       CASE WHEN key_n %% 3 = 0 THEN 'customer-' || key_n %% 5 END AS customer, 'lane-' || model_n %% 3 AS lane,
       'model-' || model_n AS model, CASE WHEN luck < 0.75 THEN 'cuda:' || n %% 8 ELSE '' END AS device,
       CASE WHEN luck < 0.02 THEN 'failed' ELSE 'succeeded' END AS outcome,
       CASE WHEN luck < 0.02 THEN 'render_failed' END AS error_code,
       CASE WHEN luck < 0.75 THEN 'miss' WHEN luck < 0.8 THEN 'joined' ELSE 'hit' END AS cache,
       CASE WHEN luck < 0.75 THEN round((0.5 + 8 * size)::numeric, 6) ELSE 0 END AS gpu_seconds,
       round((0.002 + 0.05 * size)::numeric, 9) AS price,
       CASE WHEN luck BETWEEN 0.02 AND 0.75 THEN round((0.002 + 0.05 * size)::numeric, 9) ELSE 0 END AS charged,
       jsonb_build_object('experiment', 'e' || experiment_n, 'project', 'p' || key_n %% 7,
                          'environment', (ARRAY['live', 'staging', 'test'])[1 + n %% 3]) AS dimensions,
       CASE WHEN luck < 0.02 THEN 0 ELSE 1 END AS pictures,
       CASE WHEN luck BETWEEN 0.02 AND 0.8 THEN interval '1 second' * (2 + 60 * size * size) END AS took,
       CASE WHEN luck < 0.75 THEN 1 + 3 * size END AS batch_rows, luck < 0.8 AS has_token
FROM (
    SELECT n, floor(%(keys)s * power(random(), 3))::integer AS key_n, floor(4 * power(random(), 2))::integer AS model_n,
           random() AS luck, random() AS size, floor(%(experiments)s * power(random(), 3))::integer AS experiment_n
    FROM generate_series(0, %(batch)s::integer - 1) AS n
) AS luck
"""
# Days have their hours.
_ROWS = """
INSERT INTO usage (job_id, attempt, token, key_id, team, customer, lane, model, device, worker_id, outcome, error_code,
                   cache, gpu_seconds, price, charged, currency, dimensions, at, pictures, wanted_at, batch_rows)
SELECT gen_random_uuid(), 1, CASE WHEN has_token THEN %(first)s::integer + n END, key_id, team, customer, lane, model,
       device, NULL, outcome, error_code, cache, gpu_seconds, price, charged, 'USD', dimensions, at, pictures,
       at - took, batch_rows
FROM drawn CROSS JOIN LATERAL (SELECT (%(first)s::integer + n) / %(count)s::double precision AS part) AS place
CROSS JOIN LATERAL (
    SELECT now() - interval '1 second' * (%(seconds)s * (1 - part) + 10000 * sin(part * 6.283185307 * %(days)s)) AS at
) AS settled
WHERE %(first)s::integer + n <= %(last)s::integer
ORDER BY n
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


def fill(url: str, count: int, archived: int, days: int, progress: Progress) -> None:
    """Write ``count`` rows of the ledger over the last ``days``, and the jobs of so many.

    The indexes, but the one of the rows' numbers, come after the rows.
    """
    sizes: dict[str, Any] = {
        "keys": KEYS, "teams": TEAMS, "experiments": EXPERIMENTS, "count": count, "days": days,
        "seconds": 86_400 * days, "batch": min(count, _BATCH),
    }  # fmt: skip
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        connection.execute("SET maintenance_work_mem = '256MB'")
        connection.execute(_KEYS, sizes)
        indexes = connection.execute(_INDEXES).fetchall()
        for name, _ in indexes:
            connection.execute(SQL("DROP INDEX {}").format(Identifier(name)))
        # Nothing is summed up yet, so there is nothing to take back.
        connection.execute("ALTER TABLE usage DISABLE TRIGGER usage_came_late")
        connection.execute(_DRAW, sizes)
        for first, last in _batches(progress, "rows", count):
            connection.execute(_ROWS, sizes | {"first": first, "last": last})
        connection.execute("ALTER TABLE usage ENABLE TRIGGER usage_came_late")
        for _, definition in progress.track(indexes, description="indexes"):
            connection.execute(definition)
        for first, last in _batches(progress, "archive", archived):
            connection.execute(_ARCHIVE, {"first": first, "last": last})
        connection.execute("VACUUM ANALYZE usage")


def _batches(progress: Progress, name: str, count: int) -> Iterator[tuple[int, int]]:
    """The first and the last number of each."""
    task = progress.add_task(name, total=count)
    for first in range(1, count + 1, _BATCH):
        last = min(count, first + _BATCH - 1)
        yield first, last
        progress.update(task, completed=last)
