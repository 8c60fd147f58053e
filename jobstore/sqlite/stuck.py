"""Queued jobs that another lane would serve sooner: who is stuck, and where somebody is."""

from __future__ import annotations

import json
from collections.abc import Sequence

from jobstore.rules.reroute import LOOKED_AT
from jobstore.rules.rows import Row
from jobstore.sqlite.database import Database, now

_OPEN = """
SELECT DISTINCT lane.value AS lane FROM worker, json_each(worker.lanes) AS lane
WHERE seen_at >= :now - 1e6 * lease_s AND lane.value NOT IN (SELECT name FROM lane WHERE paused_at IS NOT NULL)
"""
# A job's newest event tells since when it waits where it is.
# Only those that nobody rang for longest are looked at: as bells are rung again, all have their turn.
_STUCK = f"""
SELECT * FROM job
WHERE id IN (
    SELECT id FROM job
    WHERE state = 'queued' AND leader_id IS NULL AND lane NOT IN (SELECT name FROM lane WHERE paused_at IS NOT NULL)
    ORDER BY rung_at LIMIT {LOOKED_AT}
)
AND fallbacks <> '[]'
AND created_at <= :now - 1e6 * json_extract(fallbacks, '$[0].wait_s')
AND EXISTS (
    SELECT 1 FROM json_each(job.fallbacks) AS route
    WHERE json_extract(route.value, '$.lane') IN (SELECT value FROM json_each(:served))
    AND json_extract(route.value, '$.lane') <> job.lane
)
AND coalesce((SELECT max(at) FROM job_event WHERE job_id = job.id), created_at)
    <= :now - 1e6 * json_extract(fallbacks, '$[0].wait_s')
ORDER BY seq LIMIT :limit
"""


async def open_lanes(database: Database) -> frozenset[str]:
    """The lanes that a live worker serves and that aren't paused."""
    return frozenset(row["lane"] for row in await database.every(_OPEN, {"now": now()}))


async def lock_stuck(database: Database, served: Sequence[str], limit: int) -> list[Row]:
    """Queued jobs that may be sent on to one of these lanes."""
    return await database.every(_STUCK, {"now": now(), "served": json.dumps(list(served)), "limit": limit})
