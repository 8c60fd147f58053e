"""What any process does now and then: take back leases, stage what is due, fail what is late, ring again."""

from __future__ import annotations

from collections import Counter

import msgspec
from psycopg.types.json import Jsonb

from jobstore.job import JobError, JobState
from jobstore.postgres.clients import end_now
from jobstore.postgres.moves import followers_of, move
from jobstore.postgres.rows import Connection, Row, locked
from jobstore.postgres.settle import give_back
from jobstore.protocol import LaneCount, Swept

# SKIP LOCKED lets sweepers share the work; what is locked is re-checked by PostgreSQL before it is returned.
_LOST = """
SELECT job.* FROM job
WHERE job.lease_token IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM worker
    WHERE worker.id = job.worker_id AND worker.seen_at >= clock_timestamp() - make_interval(secs => %(lease_s)s)
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
SELECT * FROM job WHERE state = 'scheduled' AND leader_id IS NULL AND start_at <= clock_timestamp()
ORDER BY start_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
"""
_LATE = """
SELECT * FROM job
WHERE deadline_at < clock_timestamp() AND state IN ('scheduled', 'queued', 'running')
  AND (lease_token IS NULL OR deadline_at < clock_timestamp() - make_interval(secs => %(grace_s)s))
ORDER BY deadline_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
"""
_UNRUNG = """
WITH unrung AS MATERIALIZED (
    SELECT id FROM job
    WHERE state = 'queued' AND leader_id IS NULL
      AND rung_at <= clock_timestamp() - make_interval(secs => %(ring_again_s)s)
    ORDER BY rung_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE job SET rung_at = clock_timestamp() FROM unrung WHERE job.id = unrung.id RETURNING job.lane
"""
_COUNTS = """
SELECT lane, state, count(*) AS count FROM job WHERE state IN ('scheduled', 'queued', 'running') GROUP BY lane, state
"""
# A worker ends a late render itself, between two steps. It doesn't know the deadline of a job that took over a lease.
_LATE_GRACE_S = 3.0
_LATE_ERROR = JobError(code="deadline_exceeded", message="the deadline passed before the job was rendered")
_LOST_ERROR = JobError(code="worker_lost", message="the worker died or fell silent while it rendered this, too often")


async def sweep_leases(connection: Connection, *, lease_s: float, max_rescues: int, limit: int) -> Swept:
    """Take back the leases of silent workers."""
    cursor = await connection.execute(_LOST, {"lease_s": lease_s, "limit": limit})
    done: Counter[str] = Counter()
    ring = []
    for row in await cursor.fetchall():
        # The worker may have beaten between the snapshot and the lock.
        check = await connection.execute(_STILL_LOST, {"worker_id": row["worker_id"], "lease_s": lease_s})
        still = await check.fetchone()
        if still is None or not still["lost"]:
            continue
        fate = await _take_back(connection, row, max_rescues)
        done[fate] += 1
        ring += [row["lane"]] if fate == "rescued" else []
    return Swept(ring=tuple(ring), rescued=done["rescued"], dead=done["dead"], canceled=done["canceled"])


async def _take_back(connection: Connection, row: Row, max_rescues: int) -> str:
    if row["cancel_requested"]:
        await end_now(connection, row, JobState.CANCELED)
        return "canceled"
    if row["rescues"] + 1 >= max_rescues:
        ids = [row["id"], *(follower["id"] for follower in await followers_of(connection, row["id"]))]
        await connection.execute("UPDATE job SET rescues = rescues + 1 WHERE id = ANY(%s)", [ids])
        await move(connection, ids, JobState.DEAD, error=Jsonb(msgspec.to_builtins(_LOST_ERROR)), reason="worker lost")
        return "dead"
    await give_back(connection, row, reason="worker lost", rescues=1)
    return "rescued"


async def sweep_due(connection: Connection, *, limit: int) -> Swept:
    """Queue scheduled jobs whose time has come."""
    rows = await (await connection.execute(_DUE, {"limit": limit})).fetchall()
    for row in rows:
        ids = [row["id"], *(follower["id"] for follower in await followers_of(connection, row["id"]))]
        await move(connection, ids, JobState.QUEUED, reason="due")
    return Swept(ring=tuple(row["lane"] for row in rows), staged=len(rows))


async def sweep_late(connection: Connection, *, limit: int) -> Swept:
    """Fail jobs whose deadline passed: those that wait, and those that their worker did not end in time."""
    rows = await (await connection.execute(_LATE, {"limit": limit, "grace_s": _LATE_GRACE_S})).fetchall()
    ring: list[str] = []
    for late in rows:
        # Read again: the end of a leader in this batch may have made this one a leader.
        row = await locked(connection, late["id"])
        ring += await end_now(connection, row, JobState.FAILED, error=Jsonb(msgspec.to_builtins(_LATE_ERROR)))
    return Swept(ring=tuple(ring), expired=len(rows))


async def sweep_unrung(connection: Connection, *, ring_again_s: float, limit: int) -> Swept:
    """Queued jobs that nobody rang for in a while."""
    cursor = await connection.execute(_UNRUNG, {"ring_again_s": ring_again_s, "limit": limit})
    return Swept(ring=tuple([row["lane"] async for row in cursor]))


def together(parts: list[Swept]) -> Swept:
    """The sum of sweeps."""
    return Swept(
        ring=tuple(lane for part in parts for lane in part.ring),
        rescued=sum(part.rescued for part in parts),
        dead=sum(part.dead for part in parts),
        expired=sum(part.expired for part in parts),
        staged=sum(part.staged for part in parts),
        canceled=sum(part.canceled for part in parts),
    )


async def counts(connection: Connection) -> tuple[LaneCount, ...]:
    """Unfinished jobs by lane and state."""
    cursor = await connection.execute(_COUNTS)
    return tuple(
        [LaneCount(lane=row["lane"], state=JobState(row["state"]), count=row["count"]) async for row in cursor]
    )
