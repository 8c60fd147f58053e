"""The end of a render: in one statement where no job joined it, the rules do the rest."""

from __future__ import annotations

import msgspec
from psycopg.types.json import Jsonb

from jobstore.job import CacheOutcome
from jobstore.postgres.columns import Connection, one
from jobstore.protocol import Finish, Settled
from jobstore.rules.rows import to_job

# The same as ``settle.finish`` for a job that nobody joined. The lock comes first: a job that joins meanwhile is waited
# for, and then seen.
_FINISH = """
WITH held AS MATERIALIZED (
    SELECT id, worker_id, reserved, lease_token, quotas FROM job
    WHERE lease_token = %(token)s AND NOT followed FOR UPDATE
),
done AS (
    UPDATE job SET
        state = 'succeeded', lease_token = NULL, worker_id = NULL, error = NULL, finished_at = clock_timestamp(),
        charged = CASE
            WHEN %(rendered)s THEN least(job.reserved, round(job.rate * %(gpu_seconds)s / 3600, 9)) ELSE 0
        END,
        reserved = 0,
        gpu_seconds = gpu_seconds + %(gpu_seconds)s, warnings = warnings || %(warnings)s, cache = %(cache)s,
        batch_mates = %(mates)s::uuid[]
    FROM held WHERE job.id = held.id RETURNING job.*
),
told AS (
    INSERT INTO job_event (job_id, kind, data)
    SELECT id, 'done', jsonb_build_object('state', state, 'attempt', attempts, 'cache', cache) FROM done
),
given AS (
    INSERT INTO picture (job_id, index, key, seed, width, height, sha256, size_bytes, media_type)
    SELECT done.id, new.* FROM done CROSS JOIN jsonb_to_recordset(%(pictures)s) AS new
        (index integer, key text, seed bigint, width integer, height integer, sha256 text, size_bytes bigint,
         media_type text)
),
-- From here on in one order, which all keep who lock these rows: the cache's entry, what it dooms, slices of quotas in
-- theirs, balances. PostgreSQL runs what nothing refers to at the very end.
remembered AS (
    INSERT INTO cache_entry (fingerprint, seedless_fingerprint, pictures)
    SELECT fingerprint, seedless_fingerprint, %(pictures)s FROM done
    WHERE %(rendered)s AND request ->> 'cache' <> 'off'
    ON CONFLICT (fingerprint) DO UPDATE SET pictures = EXCLUDED.pictures, created_at = clock_timestamp()
    RETURNING 1
),
replaced AS (
    INSERT INTO doomed_output (key)
    SELECT DISTINCT picture ->> 'key' FROM done CROSS JOIN (SELECT count(*) FROM remembered) AS first
    JOIN cache_entry USING (fingerprint) CROSS JOIN jsonb_array_elements(pictures) AS picture
    WHERE %(rendered)s AND request ->> 'cache' <> 'off'
    ON CONFLICT (key) DO UPDATE SET doomed_at = clock_timestamp()
    RETURNING 1
),
spent AS (
    INSERT INTO usage (job_id, attempt, token, key_id, team, customer, lane, model, device, worker_id, outcome, cache,
                       gpu_seconds, price, charged, currency, dimensions, batch_rows, pictures, wanted_at)
    SELECT done.id, attempts, held.lease_token, key_id, team, customer, lane, model, %(device)s, held.worker_id,
           'succeeded', cache, %(gpu_seconds)s, price, charged, currency, dimensions, %(batch_rows)s::real,
           coalesce((request ->> 'n')::integer, 1),
           CASE WHEN cache <> 'hit' THEN greatest(created_at, (request ->> 'start_at')::timestamptz) END
    FROM done CROSS JOIN held
),
slices AS MATERIALIZED (
    SELECT slice.quota_id, slice.starts_at, entry.kind
    FROM held CROSS JOIN (SELECT count(*) FROM remembered) AS first CROSS JOIN (SELECT count(*) FROM replaced) AS second
    CROSS JOIN jsonb_to_recordset(held.quotas) AS entry (quota_id uuid, starts_at timestamptz, kind text)
    JOIN quota_slice AS slice ON slice.quota_id = entry.quota_id AND slice.starts_at = entry.starts_at
    ORDER BY slice.quota_id, slice.starts_at FOR UPDATE OF slice
),
settled AS (
    UPDATE quota_slice AS slice SET
        held = slice.held - CASE slices.kind WHEN 'spend' THEN done.ceiling WHEN 'concurrency' THEN 1 ELSE 0 END,
        used = slice.used + CASE slices.kind WHEN 'spend' THEN done.charged ELSE 0 END
    FROM done CROSS JOIN slices
    WHERE slice.quota_id = slices.quota_id AND slice.starts_at = slices.starts_at
    RETURNING 1
),
booked AS (
    UPDATE balance SET reserved = balance.reserved - held.reserved, charged = balance.charged + done.charged
    FROM done CROSS JOIN held CROSS JOIN (SELECT count(*) FROM replaced) AS first
    CROSS JOIN (SELECT count(*) FROM settled) AS second
    WHERE balance.key_id = done.key_id AND balance.currency = done.currency
      AND (held.reserved <> 0 OR done.charged <> 0)
)
SELECT * FROM done
"""


async def finish(connection: Connection, token: int, result: Finish) -> Settled | None:
    """The job has its pictures; None where the token is old, or where others joined and the rules are needed."""
    arguments = {
        "token": token,
        "rendered": result.cache is CacheOutcome.MISS,
        "cache": result.cache,
        "gpu_seconds": result.gpu_seconds,
        "device": result.device,
        "warnings": Jsonb(list(result.warnings)),
        "batch_rows": result.batch_rows,
        "mates": list(result.mates) or None,
        "pictures": Jsonb(msgspec.to_builtins(result.pictures)),
    }
    row = await one(connection, _FINISH, arguments)
    return None if row is None else Settled(job=to_job(row, result.pictures))
