"""Moving what is over out of the hot table, and deleting what is past its age, in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobstore.postgres.columns import Connection, every, sole
from jobstore.retention import DOOMED_GRACE_S, Ages, Purged

ARCHIVE_AFTER_S = 60.0
"""How long a finished job stays in the hot table, in seconds."""

_ARCHIVE = """
WITH over AS MATERIALIZED (
    SELECT id FROM job WHERE finished_at < statement_timestamp() - make_interval(secs => %(after_s)s)
    ORDER BY finished_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
),
gone AS (DELETE FROM job USING over WHERE job.id = over.id RETURNING job.*),
kept AS (INSERT INTO job_archive SELECT * FROM gone)
SELECT count(*) AS n FROM gone
"""
# Each statement deletes one kind and tells how many rows went; pictures leave their keys behind.
_JOBS = """
WITH old AS MATERIALIZED (
    SELECT id FROM job_archive WHERE finished_at < statement_timestamp() - make_interval(secs => %(age)s)
    ORDER BY finished_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
),
gone AS (DELETE FROM job_archive USING old WHERE job_archive.id = old.id RETURNING job_archive.id),
events AS (DELETE FROM job_event USING gone WHERE job_event.job_id = gone.id),
pictures AS (DELETE FROM picture USING gone WHERE picture.job_id = gone.id RETURNING picture.key),
doomed AS (
    INSERT INTO doomed_output (key) SELECT DISTINCT key FROM pictures
    ON CONFLICT (key) DO UPDATE SET doomed_at = clock_timestamp() RETURNING 1
)
SELECT (SELECT count(*) FROM gone) AS n, (SELECT count(*) FROM doomed) AS doomed
"""
_EVENTS = """
WITH old AS MATERIALIZED (
    SELECT seq FROM (SELECT seq, at FROM job_event ORDER BY seq LIMIT %(limit)s) AS first
    WHERE at < statement_timestamp() - make_interval(secs => %(age)s)
),
gone AS (DELETE FROM job_event USING old WHERE job_event.seq = old.seq RETURNING 1)
SELECT count(*) AS n, 0 AS doomed FROM gone
"""
_PICTURES = """
WITH old AS MATERIALIZED (
    SELECT job_id, index FROM picture WHERE created_at < statement_timestamp() - make_interval(secs => %(age)s)
    ORDER BY created_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM picture USING old WHERE picture.job_id = old.job_id AND picture.index = old.index RETURNING picture.key
),
doomed AS (
    INSERT INTO doomed_output (key) SELECT DISTINCT key FROM gone
    ON CONFLICT (key) DO UPDATE SET doomed_at = clock_timestamp() RETURNING 1
)
SELECT (SELECT count(*) FROM gone) AS n, (SELECT count(*) FROM doomed) AS doomed
"""
_CACHE = """
WITH old AS MATERIALIZED (
    SELECT fingerprint FROM cache_entry WHERE created_at < statement_timestamp() - make_interval(secs => %(age)s)
    ORDER BY created_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM cache_entry USING old WHERE cache_entry.fingerprint = old.fingerprint RETURNING cache_entry.pictures
),
doomed AS (
    INSERT INTO doomed_output (key)
    SELECT DISTINCT picture ->> 'key' FROM gone CROSS JOIN jsonb_array_elements(pictures) AS picture
    ON CONFLICT (key) DO UPDATE SET doomed_at = clock_timestamp() RETURNING 1
)
SELECT (SELECT count(*) FROM gone) AS n, (SELECT count(*) FROM doomed) AS doomed
"""
_USAGE = """
WITH gone AS (
    DELETE FROM usage WHERE seq IN (
        SELECT seq FROM usage WHERE at < statement_timestamp() - make_interval(secs => %(age)s)
        ORDER BY at LIMIT %(limit)s
    ) RETURNING 1
)
SELECT count(*) AS n, 0 AS doomed FROM gone
"""
_DELIVERIES = """
WITH old AS MATERIALIZED (
    SELECT seq FROM webhook_delivery
    WHERE state <> 'pending' AND created_at < statement_timestamp() - make_interval(secs => %(age)s)
    ORDER BY created_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
),
gone AS (DELETE FROM webhook_delivery USING old WHERE webhook_delivery.seq = old.seq RETURNING 1)
SELECT count(*) AS n, 0 AS doomed FROM gone
"""
_REPLAYS = """
DELETE FROM replay WHERE (scope, key) IN (
    SELECT scope, key FROM replay WHERE expires_at < statement_timestamp() LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""
_WORKERS = """
DELETE FROM worker WHERE seen_at < statement_timestamp() - interval '1 day'
  AND NOT EXISTS (SELECT FROM job WHERE job.worker_id = worker.id AND lease_token IS NOT NULL)
"""
_POINTED_AT = """
SELECT key FROM unnest(%(keys)s::text[]) AS known (key)
WHERE EXISTS (SELECT FROM picture WHERE picture.key = known.key)
   OR EXISTS (SELECT FROM cache_entry WHERE pictures @> jsonb_build_array(jsonb_build_object('key', known.key)))
"""
# A key that something points at again is pardoned, unless it was lost anew meanwhile.
_PARDON = """
DELETE FROM doomed_output
WHERE key = ANY(%(keys)s) AND doomed_at <= statement_timestamp() - make_interval(secs => %(grace_s)s)
"""
_DOOM = """
INSERT INTO doomed_output (key) SELECT unnest(%(keys)s::text[])
ON CONFLICT (key) DO UPDATE SET doomed_at = clock_timestamp()
"""
_DOOMED = """
SELECT key FROM doomed_output WHERE doomed_at <= statement_timestamp() - make_interval(secs => %(grace_s)s)
ORDER BY doomed_at LIMIT %(limit)s
"""


async def archive(connection: Connection, limit: int, ages: Ages) -> Purged:
    """Move finished jobs out of the hot table. What is to be deleted sooner is moved sooner."""
    after_s = ARCHIVE_AFTER_S if ages.jobs is None else min(ARCHIVE_AFTER_S, ages.jobs)
    return Purged(archived=(await sole(connection, _ARCHIVE, {"after_s": after_s, "limit": limit}))["n"])


async def purge_kind(connection: Connection, kind: str, age_s: float, limit: int) -> Purged:
    """Delete what of one kind (a field of Ages) is past its age."""
    queries = {
        "jobs": _JOBS,
        "events": _EVENTS,
        "outputs": _PICTURES,
        "cache": _CACHE,
        "usage": _USAGE,
        "deliveries": _DELIVERIES,
    }
    done = await sole(connection, queries[kind], {"age": age_s, "limit": limit})
    counted: dict[str, Any] = {"pictures" if kind == "outputs" else kind: done["n"], "doomed": done["doomed"]}
    return Purged(**counted)


def ages_of(ages: Ages) -> list[tuple[str, float]]:
    """The kinds that have an age."""
    kinds = [(kind, getattr(ages, kind)) for kind in Ages.__struct_fields__]
    return [(kind, age) for kind, age in kinds if age is not None]


async def purge_rest(connection: Connection, limit: int) -> Purged:
    """Delete idempotency keys that are too old, and workers that nobody has heard of for a day."""
    await connection.execute(_WORKERS)
    return Purged(replays=(await connection.execute(_REPLAYS, {"limit": limit})).rowcount)


async def doomed(connection: Connection, limit: int) -> tuple[str, ...]:
    """Doomed keys that nothing points at, after their time of grace."""
    found = await every(connection, _DOOMED, {"grace_s": DOOMED_GRACE_S, "limit": limit})
    keys = [row["key"] for row in found]
    pardoned = await pointed_at(connection, keys)
    await connection.execute(_PARDON, {"grace_s": DOOMED_GRACE_S, "keys": sorted(pardoned)})
    return tuple(key for key in keys if key not in pardoned)


async def doom(connection: Connection, keys: Sequence[str]) -> None:
    """Put keys down as doomed, from now on."""
    await connection.execute(_DOOM, {"keys": sorted(set(keys))})


async def bury(connection: Connection, keys: Sequence[str]) -> None:
    """Forget doomed keys."""
    await connection.execute("DELETE FROM doomed_output WHERE key = ANY(%(keys)s)", {"keys": list(keys)})


async def pointed_at(connection: Connection, keys: Sequence[str]) -> frozenset[str]:
    """Those of the keys that a job or a cache entry points at."""
    return frozenset(row["key"] for row in await every(connection, _POINTED_AT, {"keys": list(keys)}))
