"""The worker's side: claims and beats."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from jobstore.job import JobState
from jobstore.postgres.moves import followers_of, move
from jobstore.postgres.rows import Connection, Row, one, sole, to_job
from jobstore.protocol import HeldLease, Lease, Worker

MATES_BOUND_S = 30.0

_SEEN = """
INSERT INTO worker (id, host, pid, device, lanes) VALUES (%(id)s, %(host)s, %(pid)s, %(device)s, %(lanes)s)
ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp()
"""
_ALIVE = """
SELECT id, host, pid, device, lanes FROM worker
WHERE seen_at >= clock_timestamp() - make_interval(secs => %(within_s)s) ORDER BY started_at, id
"""
# One index scan a lane; the heads that are not taken are let go at commit.
_HEAD = """
WITH heads AS MATERIALIZED (
    SELECT head.* FROM unnest(%(lanes)s::text[]) AS lanes (name) CROSS JOIN LATERAL (
        SELECT * FROM job
        WHERE state = 'queued' AND leader_id IS NULL AND lane = lanes.name
        ORDER BY rank_at, seq LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ) AS head
)
SELECT * FROM heads ORDER BY rank_at, seq LIMIT 1
"""
# A mate may jump the line only over jobs that came at most so many seconds before it.
_MATE = """
SELECT * FROM job
WHERE state = 'queued' AND leader_id IS NULL AND lane = %(lane)s AND batch_key = %(prefer)s
  AND rank_at <= %(rank_at)s + make_interval(secs => %(bound)s)
ORDER BY rank_at, seq LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
"""


async def see(connection: Connection, worker: Worker) -> None:
    """Note that the worker lives."""
    await connection.execute(
        _SEEN,
        {
            "id": worker.id,
            "host": worker.host,
            "pid": worker.pid,
            "device": worker.device,
            "lanes": list(worker.lanes),
        },
    )


async def workers(connection: Connection, within_s: float) -> tuple[Worker, ...]:
    """Those seen within so many seconds, in the order in which they started."""
    cursor = await connection.execute(_ALIVE, {"within_s": within_s})
    return tuple([Worker(**{**row, "lanes": tuple(row["lanes"])}) async for row in cursor])


async def claim(connection: Connection, worker: Worker, lanes: Sequence[str], prefer: str | None) -> Lease | None:
    """Take the next job under a fresh token."""
    await see(connection, worker)
    row = await one(connection, _HEAD, {"lanes": sorted(set(lanes))})
    if row is None:
        return None
    if prefer is not None and row["batch_key"] != prefer:
        row = await _mate(connection, row, prefer) or row
    followers = await followers_of(connection, row["id"])
    ids = [row["id"], *(follower["id"] for follower in followers)]
    await connection.execute("UPDATE job SET attempts = attempts + 1 WHERE id = ANY(%s)", [ids])
    token = (await sole(connection, "SELECT nextval('lease_token') AS token", {}))["token"]
    rows = await move(connection, ids, JobState.RUNNING, lease_token=token, worker_id=worker.id)
    leader = next(moved for moved in rows if moved["id"] == row["id"])
    return Lease(token=token, job=to_job(leader))


async def _mate(connection: Connection, head: Row, prefer: str) -> Row | None:
    arguments = {"lane": head["lane"], "prefer": prefer, "rank_at": head["rank_at"], "bound": MATES_BOUND_S}
    return await one(connection, _MATE, arguments)


async def beat(connection: Connection, worker: Worker) -> tuple[HeldLease, ...]:
    """Note that the worker lives, and read what it holds."""
    await see(connection, worker)
    cursor = await connection.execute(
        "SELECT lease_token, id, cancel_requested FROM job WHERE worker_id = %s AND lease_token IS NOT NULL",
        [worker.id],
    )
    return tuple(
        [
            HeldLease(token=row["lease_token"], job_id=row["id"], cancel_requested=row["cancel_requested"])
            async for row in cursor
        ]
    )


async def leave(connection: Connection, worker_id: UUID) -> None:
    """Forget a worker."""
    await connection.execute("DELETE FROM worker WHERE id = %s", [worker_id])
