"""The client's side besides submit: read, list, cancel, retry."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any
from uuid import UUID

from jobstore.errors import IllegalTransitionError, JobNotFoundError
from jobstore.job import Job, JobState
from jobstore.postgres.moves import followers_of, move, succeed_leader
from jobstore.postgres.rows import Connection, Row, locked, one, pictures_of, to_job, with_pictures
from jobstore.protocol import JobFilter, JobPage, Settled

_POSITION_LIMIT = 10_000
_POSITION = """
SELECT count(*) + 1 AS position FROM (
    SELECT 1 FROM job
    WHERE state = 'queued' AND leader_id IS NULL AND lane = %(lane)s AND (rank_at, seq) < (%(rank_at)s, %(seq)s)
    LIMIT %(limit)s
) AS ahead
"""
_STANDING = {
    JobState.SCHEDULED: "is scheduled",
    JobState.QUEUED: "is queued",
    JobState.RUNNING: "is running",
    JobState.SUCCEEDED: "succeeded",
    JobState.CANCELED: "was canceled",
}
_LIST = """
SELECT * FROM job
WHERE (%(state)s::text IS NULL OR state = %(state)s) AND (%(model)s::text IS NULL OR model = %(model)s)
  AND (%(key_id)s::uuid IS NULL OR key_id = %(key_id)s) AND (%(before)s::bigint IS NULL OR seq < %(before)s)
ORDER BY seq DESC LIMIT %(limit)s
"""


async def get(connection: Connection, job_id: UUID) -> Job:
    """The job with its pictures and its place in the queue."""
    row = await one(connection, "SELECT * FROM job WHERE id = %(id)s", {"id": job_id})
    if row is None:
        raise JobNotFoundError(f"no job {job_id}")
    found = await pictures_of(connection, [job_id])
    return to_job(row, found.get(job_id, ()), await position(connection, row))


async def position(connection: Connection, row: Row) -> int | None:
    """The place in its lane's queue, from 1 and bounded; that of its leader for a job that joined."""
    if row["state"] != JobState.QUEUED:
        return None
    if row["leader_id"] is not None:
        row = await one(connection, "SELECT * FROM job WHERE id = %(id)s", {"id": row["leader_id"]}) or row
    arguments = {name: row[name] for name in ("lane", "rank_at", "seq")} | {"limit": _POSITION_LIMIT}
    counted = await one(connection, _POSITION, arguments)
    return None if counted is None else int(counted["position"])


async def list_jobs(connection: Connection, where: JobFilter) -> JobPage:
    """One page, newest first."""
    arguments: dict[str, Any] = {
        "state": where.state,
        "model": where.model,
        "key_id": where.key_id,
        "before": _decoded(where.cursor),
        "limit": where.limit + 1,
    }
    rows = await (await connection.execute(_LIST, arguments)).fetchall()
    more, rows = len(rows) > where.limit, rows[: where.limit]
    found = await pictures_of(connection, [row["id"] for row in rows])
    return JobPage(
        jobs=tuple(to_job(row, found.get(row["id"], ())) for row in rows),
        next_cursor=_encoded(rows[-1]["seq"]) if more else None,
    )


def _encoded(seq: int) -> str:
    return base64.urlsafe_b64encode(f"s{seq}".encode()).decode().rstrip("=")


def _decoded(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except (ValueError, binascii.Error):
        text = ""
    if not re.fullmatch(r"s[0-9]{1,18}", text):
        raise ValueError("the cursor is not one that a page gave")
    return int(text[1:])


async def cancel(connection: Connection, job_id: UUID) -> Settled:
    """Cancel, and let those that joined go on."""
    row = await _lock(connection, job_id)
    ring: tuple[str, ...] = ()
    if not JobState(row["state"]).terminal:
        if row["lease_token"] is not None and not await followers_of(connection, job_id):
            await connection.execute("UPDATE job SET cancel_requested = true WHERE id = %s", [job_id])
        else:
            ring = await end_now(connection, row, JobState.CANCELED)
    return Settled(job=await with_pictures(connection, await locked(connection, job_id)), ring=ring)


async def end_now(connection: Connection, row: Row, state: JobState, **told: Any) -> tuple[str, ...]:
    """End a job (locked) whatever its worker does; who joined it goes on. Returns one lane for each bell to ring."""
    followers = await followers_of(connection, row["id"])
    await move(connection, [row["id"]], state, **told)
    return await succeed_leader(connection, row, followers)


async def retry(connection: Connection, job_id: UUID) -> Settled:
    """Queue a failed or dead job anew, at its price and with fresh attempts. It renders for itself: none joins it."""
    row = await _lock(connection, job_id)
    state = JobState(row["state"])
    if state not in (JobState.FAILED, JobState.DEAD):
        raise IllegalTransitionError(f"only failed or dead jobs can be retried; this one {_STANDING[state]}")
    await connection.execute(
        "UPDATE job SET joinable = false, leader_id = NULL, cache = 'miss', rescues = 0, start_at = NULL, "
        "deadline_at = NULL, attempts_allowed = attempts + max_attempts WHERE id = %s",
        [job_id],
    )
    await move(connection, [job_id], JobState.QUEUED, reason="redriven")
    await connection.execute("UPDATE job SET reserved = price WHERE id = %s", [job_id])
    return Settled(job=await with_pictures(connection, await locked(connection, job_id)), ring=(row["lane"],))


async def _lock(connection: Connection, job_id: UUID) -> Row:
    """The job's row, locked. A job that joined is locked after its leader, the order that all transitions keep."""
    await connection.execute(
        "SELECT 1 FROM job WHERE id = (SELECT leader_id FROM job WHERE id = %s) FOR UPDATE", [job_id]
    )
    row = await one(connection, "SELECT * FROM job WHERE id = %(id)s FOR UPDATE", {"id": job_id})
    if row is None:
        raise JobNotFoundError(f"no job {job_id}")
    return row
