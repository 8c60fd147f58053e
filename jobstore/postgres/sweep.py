"""What any process does now and then: take back leases, stage what is due, fail what is late, ring again."""

from __future__ import annotations

from uuid import UUID

from jobstore.postgres.columns import Connection, every, sole
from jobstore.rules.reaper import LATE_GRACE_S
from jobstore.rules.rows import NOBODY, Row

# An index serves a comparison with statement_timestamp(), which stands still while a statement runs, and none with
# clock_timestamp(). SKIP LOCKED lets sweepers share the work; PostgreSQL checks again what it has locked.
_LOST = """
SELECT job.* FROM job
WHERE job.lease_token IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM worker
    WHERE worker.id = job.worker_id AND worker.seen_at >= statement_timestamp() - make_interval(secs => %(lease_s)s)
)
ORDER BY job.seq LIMIT %(limit)s FOR UPDATE OF job SKIP LOCKED
"""
_STILL_LOST = """
SELECT NOT EXISTS (
    SELECT 1 FROM worker
    WHERE id = %(worker_id)s AND seen_at >= clock_timestamp() - make_interval(secs => %(lease_s)s)
) AS lost
"""
_DUE = """
SELECT * FROM job WHERE state = 'scheduled' AND leader_id IS NULL AND start_at <= statement_timestamp()
ORDER BY start_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
"""
_LATE = """
SELECT id FROM (
    SELECT id, seq FROM job
    WHERE deadline_at < statement_timestamp() AND state IN ('scheduled', 'queued', 'running')
      AND (lease_token IS NULL OR deadline_at < statement_timestamp() - make_interval(secs => %(grace_s)s))
    UNION
    SELECT id, seq FROM job
    WHERE start_by < statement_timestamp() AND started_at IS NULL AND state IN ('scheduled', 'queued')
) AS late
ORDER BY seq LIMIT %(limit)s
"""
_UNRUNG = """
WITH unrung AS MATERIALIZED (
    SELECT id FROM job
    WHERE state = 'queued' AND leader_id IS NULL
      AND rung_at <= statement_timestamp() - make_interval(secs => %(ring_again_s)s)
      AND lane <> ALL (SELECT name FROM lane WHERE paused_at IS NOT NULL)
    ORDER BY rung_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE job SET rung_at = clock_timestamp() FROM unrung WHERE job.id = unrung.id RETURNING job.lane
"""
# One index probe a tenant, up to a bound: more tenants than that share a lane as finely as can be measured.
_QUEUED = (
    "state = 'queued' AND (state = 'queued' OR started_at IS NOT NULL) AND leader_id IS NULL"  # as the index has it
)
_TENANT = f"coalesce(key_id, '{NOBODY}'::uuid)"
_TENANTS = f"""
WITH RECURSIVE tenant (lane, id, n) AS (
    SELECT name, (
        SELECT {_TENANT} FROM job WHERE {_QUEUED} AND job.lane = lane.name ORDER BY {_TENANT} LIMIT 1
    ), 1 FROM lane
    UNION ALL
    SELECT tenant.lane, (
        SELECT {_TENANT} FROM job WHERE {_QUEUED} AND job.lane = tenant.lane AND {_TENANT} > tenant.id
        ORDER BY {_TENANT} LIMIT 1
    ), n + 1 FROM tenant WHERE tenant.id IS NOT NULL AND n < 1000
),
counted AS (SELECT lane, greatest(count(id), 1) AS tenants FROM tenant GROUP BY lane),
free AS MATERIALIZED (
    SELECT name, counted.tenants FROM lane JOIN counted ON counted.lane = lane.name
    WHERE lane.tenants <> counted.tenants FOR NO KEY UPDATE OF lane SKIP LOCKED
)
UPDATE lane SET tenants = free.tenants FROM free WHERE lane.name = free.name
"""


async def lock_lost(connection: Connection, lease_s: float, limit: int) -> list[Row]:
    """Jobs of silent workers."""
    lost = []
    for row in await every(connection, _LOST, {"lease_s": lease_s, "limit": limit}):
        # The worker may have beaten between the snapshot and the lock.
        arguments = {"worker_id": row["worker_id"], "lease_s": lease_s}
        if (await sole(connection, _STILL_LOST, arguments))["lost"]:
            lost.append(row)
    return lost


async def lock_due(connection: Connection, limit: int) -> list[Row]:
    """Scheduled jobs whose time has come."""
    return await every(connection, _DUE, {"limit": limit})


async def find_late(connection: Connection, limit: int) -> list[UUID]:
    """Jobs whose deadline passed."""
    return [row["id"] for row in await every(connection, _LATE, {"limit": limit, "grace_s": LATE_GRACE_S})]


async def ring_again(connection: Connection, after_s: float, limit: int) -> list[str]:
    """Queued jobs that nobody rang for in a while."""
    return [row["lane"] for row in await every(connection, _UNRUNG, {"ring_again_s": after_s, "limit": limit})]


async def count_tenants(connection: Connection) -> None:
    """Note how many tenants share each lane."""
    await connection.execute(_TENANTS)
