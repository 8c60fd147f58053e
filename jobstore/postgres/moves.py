"""Transitions: the one place that changes a job's state and tells of it in an event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from jobstore.job import JobState
from jobstore.postgres.rows import Connection, Row, sole
from jobstore.states import sources_of

_MOVE = """
UPDATE job SET
    state = %(state)s,
    lease_token = CASE WHEN leader_id IS NULL THEN %(lease_token)s::bigint END,
    worker_id = %(worker_id)s::uuid,
    reserved = CASE WHEN %(ends)s THEN 0 ELSE reserved END,
    error = %(error)s::jsonb,
    cancel_requested = CASE WHEN %(ends)s OR %(state)s = 'running' THEN cancel_requested ELSE false END,
    start_at = CASE WHEN %(state)s = 'scheduled' THEN clock_timestamp() + make_interval(secs => %(delay)s)
               ELSE start_at END,
    rung_at = CASE WHEN %(state)s = 'queued' THEN clock_timestamp() ELSE rung_at END,
    started_at = CASE WHEN %(state)s = 'running' THEN coalesce(started_at, clock_timestamp()) ELSE started_at END,
    finished_at = CASE WHEN %(ends)s THEN clock_timestamp() END
WHERE id = ANY(%(ids)s) AND state = ANY(%(sources)s)
RETURNING *
"""

_INHERITED = ("rank_at", "attempts", "rescues", "lease_token", "worker_id", "start_at", "rung_at")
_INHERIT = """
UPDATE job SET
    leader_id = NULL, cache = 'miss', reserved = price, rank_at = least(rank_at, %(rank_at)s), attempts = %(attempts)s,
    rescues = %(rescues)s, lease_token = %(lease_token)s::bigint, worker_id = %(worker_id)s::uuid,
    start_at = %(start_at)s, rung_at = %(rung_at)s
WHERE id = %(id)s AND leader_id = %(leader_id)s
RETURNING *
"""


async def move(
    connection: Connection,
    ids: Sequence[UUID],
    state: JobState,
    *,
    lease_token: int | None = None,
    worker_id: UUID | None = None,
    error: Jsonb | None = None,
    delay: float = 0.0,
    **told: Any,
) -> list[Row]:
    """Move locked jobs to ``state`` and write their events (``told`` goes into the event's data); the new rows.

    A job from whose state ``state`` can't be reached stays as it is and is not among the rows.
    """
    cursor = await connection.execute(
        _MOVE,
        {
            "ids": list(ids),
            "state": state,
            "sources": list(sources_of(state)),
            "ends": state.terminal,
            "lease_token": lease_token,
            "worker_id": worker_id,
            "error": error,
            "delay": delay,
        },
    )
    rows = await cursor.fetchall()
    for row in rows:
        await tell(connection, row, **told)
    return rows


async def tell(connection: Connection, row: Row, **told: Any) -> None:
    """Write the event that a job is in its row's state now."""
    state = JobState(row["state"])
    data = {"state": state, "attempt": row["attempts"], **told}
    if row["error"] is not None:
        data["error"] = row["error"]
    await connection.execute(
        "INSERT INTO job_event (job_id, kind, data) VALUES (%s, %s, %s)",
        [row["id"], "done" if state.terminal else "state", Jsonb(data)],
    )


async def followers_of(connection: Connection, leader_id: UUID) -> list[Row]:
    """The jobs that joined, oldest first, locked."""
    cursor = await connection.execute(
        "SELECT * FROM job WHERE leader_id = %s AND state IN ('scheduled', 'queued', 'running') "
        "ORDER BY seq FOR UPDATE",
        [leader_id],
    )
    return await cursor.fetchall()


async def detach(connection: Connection, followers: Sequence[Row], **told: Any) -> tuple[str, ...]:
    """Queue jobs that had joined as jobs of their own, at their own price; one lane for each bell to ring."""
    ids = [row["id"] for row in followers]
    await connection.execute(
        "UPDATE job SET leader_id = NULL, joinable = false, cache = 'miss', reserved = price, state = 'queued', "
        "rung_at = clock_timestamp() WHERE id = ANY(%s)",
        [ids],
    )
    for row in followers:
        await tell(connection, {**row, "state": JobState.QUEUED}, **told)
    return tuple(row["lane"] for row in followers)


async def succeed_leader(connection: Connection, leader: Row, followers: Sequence[Row]) -> tuple[str, ...]:
    """Let the first job that joined take the place of a leader that has just ended: its rank, lease and attempts.

    ``leader`` is the leader's row from before its end. A render goes on for whoever wants it in the same file format;
    where nobody does, the heir is queued anew. Returns one lane for each bell to ring.
    """
    if not followers:
        return ()
    rendering = leader["lease_token"] is not None
    alike = [row for row in followers if row["format"] == leader["format"]]
    heir = alike[0] if rendering and alike else followers[0]
    others = [row["id"] for row in followers if row["id"] != heir["id"]]
    if rendering and not alike:
        leader = {**leader, "lease_token": None, "worker_id": None, "attempts": max(leader["attempts"] - 1, 0)}
        await move(connection, [row["id"] for row in followers], JobState.QUEUED, reason="render of another format")
    taken = await sole(
        connection,
        _INHERIT,
        {"id": heir["id"], "leader_id": leader["id"]} | {name: leader[name] for name in _INHERITED},
    )
    await connection.execute("UPDATE job SET leader_id = %s WHERE id = ANY(%s)", [heir["id"], others])
    await tell(connection, taken, reason="took over from a job that ended")
    return (taken["lane"],) if taken["state"] == JobState.QUEUED else ()
