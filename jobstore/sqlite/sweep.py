"""What any process does now and then: take back leases, stage what is due, fail what is late, ring again."""

from __future__ import annotations

from uuid import UUID

from jobstore.rules.reaper import LATE_GRACE_S
from jobstore.rules.rows import NOBODY, Row
from jobstore.sqlite.database import Database, now

_CLOCK_SLACK = 1_000_000  # microseconds
_LIVE = "state IN ('scheduled', 'queued', 'running')"
_LOST = """
SELECT job.* FROM job WHERE lease_token IS NOT NULL
AND NOT EXISTS (
    SELECT 1 FROM worker WHERE worker.id = job.worker_id AND worker.seen_at BETWEEN :since AND :until
)
ORDER BY seq LIMIT :limit
"""
_DUE = """
SELECT * FROM job WHERE state = 'scheduled' AND leader_id IS NULL AND start_at <= :now ORDER BY start_at LIMIT :limit
"""
_LATE = f"""
SELECT id FROM job WHERE {_LIVE} AND (
    (deadline_at < :now AND (lease_token IS NULL OR deadline_at < :grace))
    OR (start_by < :now AND started_at IS NULL AND state <> 'running')
) ORDER BY seq LIMIT :limit
"""
_UNRUNG = """
SELECT id, lane FROM job WHERE state = 'queued' AND leader_id IS NULL AND rung_at <= :since
AND lane NOT IN (SELECT name FROM lane WHERE paused_at IS NOT NULL) ORDER BY rung_at LIMIT :limit
"""
_TENANTS = f"""
UPDATE lane SET tenants = max(1, (
    SELECT count(DISTINCT coalesce(key_id, '{NOBODY}')) FROM job
    WHERE state = 'queued' AND leader_id IS NULL AND job.lane = lane.name
))
"""


def _ago(seconds: float) -> int:
    return now() - round(1e6 * seconds)


async def lock_lost(database: Database, lease_s: float, limit: int) -> list[Row]:
    """Jobs of silent workers."""
    # The machine's clock may be set back: a beat from the future holds no lease until then.
    values = {"since": _ago(lease_s), "until": now() + _CLOCK_SLACK, "limit": limit}
    return await database.every(_LOST, values)


async def lock_due(database: Database, limit: int) -> list[Row]:
    """Scheduled jobs whose time has come."""
    return await database.every(_DUE, {"now": now(), "limit": limit})


async def find_late(database: Database, limit: int) -> list[UUID]:
    """Jobs whose deadline passed."""
    values = {"now": now(), "grace": _ago(LATE_GRACE_S), "limit": limit}
    return [row["id"] for row in await database.every(_LATE, values)]


async def ring_again(database: Database, after_s: float, limit: int) -> list[str]:
    """Queued jobs that nobody rang for in a while."""
    found = await database.every(_UNRUNG, {"since": _ago(after_s), "limit": limit})
    for row in found:
        await database.execute("UPDATE job SET rung_at = :now WHERE id = :id", {"id": row["id"], "now": now()})
    return [row["lane"] for row in found]


async def count_tenants(database: Database) -> None:
    """Note how many tenants share each lane."""
    await database.execute(_TENANTS)
