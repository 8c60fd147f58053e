"""Queued jobs that another lane would serve sooner: who is stuck, and where somebody is."""

from __future__ import annotations

from collections.abc import Sequence

from jobstore.postgres.columns import Connection, every, sole
from jobstore.rules.reroute import LOOKED_AT
from jobstore.rules.rows import Row

_OPEN = """
SELECT DISTINCT unnest(lanes) AS lane FROM worker WHERE seen_at >= clock_timestamp() - make_interval(secs => lease_s)
EXCEPT SELECT name FROM lane WHERE paused_at IS NOT NULL
"""
# A job's newest event tells since when it waits where it is. Its age comes first: it is at hand.
_WAIT = "make_interval(secs => (fallbacks #>> '{0,wait_s}')::float8)"
# Only those that nobody rang for longest are looked at: as bells are rung again, all have their turn.
_STUCK = f"""
WITH longest AS MATERIALIZED (
    SELECT id FROM job
    WHERE state = 'queued' AND leader_id IS NULL AND lane <> ALL (SELECT name FROM lane WHERE paused_at IS NOT NULL)
    ORDER BY rung_at LIMIT {LOOKED_AT}
)
SELECT job.* FROM job JOIN longest USING (id)
WHERE state = 'queued' AND leader_id IS NULL AND fallbacks <> '[]'
  AND created_at <= statement_timestamp() - {_WAIT}
  AND EXISTS (
      SELECT 1 FROM jsonb_array_elements(fallbacks) AS route
      WHERE route ->> 'lane' = ANY (%(served)s) AND route ->> 'lane' <> job.lane
  )
  AND coalesce((SELECT max(at) FROM job_event WHERE job_id = job.id), created_at) <= statement_timestamp() - {_WAIT}
ORDER BY seq LIMIT %(limit)s FOR UPDATE OF job SKIP LOCKED
"""
_STILL_STUCK = f"""
SELECT coalesce((SELECT max(at) FROM job_event WHERE job_id = job.id), created_at) <= clock_timestamp() - {_WAIT}
    AS stuck FROM job WHERE id = %(id)s
"""


async def open_lanes(connection: Connection) -> frozenset[str]:
    """The lanes that a live worker serves and that aren't paused."""
    return frozenset(row["lane"] for row in await every(connection, _OPEN, {}))


async def lock_stuck(connection: Connection, served: Sequence[str], limit: int) -> list[Row]:
    """Queued jobs that may be sent on to one of these lanes."""
    arguments = {"served": list(served), "limit": limit}
    # Another sweeper may have sent it on between the snapshot and the lock.
    return [
        row
        for row in await every(connection, _STUCK, arguments)
        if (await sole(connection, _STILL_STUCK, {"id": row["id"]}))["stuck"]
    ]
