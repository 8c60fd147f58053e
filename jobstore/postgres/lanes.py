"""Lanes: what waits in them, and whether they are open."""

from __future__ import annotations

import time
from typing import Any

from jobstore.audit import Actor, AuditNote
from jobstore.ids import first_since
from jobstore.job import JobState
from jobstore.postgres.columns import Connection, every
from jobstore.postgres.keys import write_note
from jobstore.postgres.standing import devices_of
from jobstore.protocol import Backlog, Lane, LaneCount

_BELLS = 100
_LANES = f"""
WITH load AS (
    SELECT lane AS name, count(*) FILTER (WHERE state = 'scheduled') AS scheduled,
        count(*) FILTER (WHERE state = 'queued') AS queued, count(*) FILTER (WHERE state = 'running') AS running,
        coalesce(sum(expected_s) FILTER (WHERE state = 'queued' AND leader_id IS NULL), 0) AS waiting_s,
        coalesce(extract(epoch FROM clock_timestamp() - min(created_at) FILTER (WHERE state = 'queued')), 0)::float8
            AS oldest_s
    FROM job WHERE state IN ('scheduled', 'queued', 'running') GROUP BY lane
)
SELECT name, paused_at, coalesce(reason, '') AS reason, coalesce(scheduled, 0) AS scheduled,
    coalesce(queued, 0) AS queued, coalesce(running, 0) AS running, coalesce(waiting_s, 0) AS waiting_s,
    coalesce(oldest_s, 0) AS oldest_s, ({devices_of("name")}) AS devices,
    ({devices_of("name", "coalesce(sum((report->>'slots')::integer), 0)")}) AS slots
FROM lane FULL JOIN load USING (name) ORDER BY name
"""
_KEYS = "SELECT key_id, count(*) AS waiting FROM job WHERE state IN ('scheduled', 'queued') GROUP BY key_id"
_ARRIVING = """
SELECT lane, sum(expected_s) / %(seconds)s AS devices FROM any_job
WHERE id >= %(since)s AND cache = 'miss' GROUP BY lane
"""
_PAUSE = """
INSERT INTO lane (name, paused_at, reason) VALUES (%(name)s, clock_timestamp(), %(reason)s)
ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(lane.paused_at, EXCLUDED.paused_at), reason = EXCLUDED.reason
"""
_RESUME = "UPDATE lane SET paused_at = NULL, reason = '' WHERE name = %(name)s AND paused_at IS NOT NULL RETURNING name"
_WAITING = """
SELECT lane FROM job WHERE state = 'queued' AND leader_id IS NULL AND lane = %(name)s LIMIT %(limit)s
"""
_COUNTS = """
SELECT lane, state, count(*) AS count FROM job WHERE state IN ('scheduled', 'queued', 'running') GROUP BY lane, state
"""


async def lanes(connection: Connection) -> tuple[Lane, ...]:
    """All lanes, by name."""
    return tuple(Lane(**row) for row in await every(connection, _LANES, {}))


async def arriving(connection: Connection, seconds: float) -> dict[str, float]:
    """By lane, the devices that would keep up with what came in so many seconds."""
    arguments = {"seconds": seconds, "since": first_since(time.time() - seconds)}
    return {row["lane"]: row["devices"] for row in await every(connection, _ARRIVING, arguments)}


async def backlog(connection: Connection) -> Backlog:
    """What waits, by lane and by key."""
    keys = {row["key_id"]: row["waiting"] for row in await every(connection, _KEYS, {})}
    return Backlog(lanes={lane.name: lane for lane in await lanes(connection)}, keys=keys)


async def pause(connection: Connection, name: str, reason: str, by: Actor | None) -> None:
    """Close a lane; one that is closed stays so from its first time on."""
    await connection.execute(_PAUSE, {"name": name, "reason": reason})
    if by is not None:
        await write_note(connection, AuditNote(by=by, action="lane.paused", target=name, details={"reason": reason}))


async def resume(connection: Connection, name: str, by: Actor | None) -> tuple[str, ...]:
    """Open a lane; bells for what waits, within a bound: the sweeper rings for the rest."""
    arguments: dict[str, Any] = {"name": name, "limit": _BELLS}
    if not await every(connection, _RESUME, arguments):
        return ()
    if by is not None:
        await write_note(connection, AuditNote(by=by, action="lane.resumed", target=name))
    return tuple(row["lane"] for row in await every(connection, _WAITING, arguments))


async def counts(connection: Connection) -> tuple[LaneCount, ...]:
    """Unfinished jobs by lane and state."""
    found = await every(connection, _COUNTS, {})
    return tuple(LaneCount(lane=row["lane"], state=JobState(row["state"]), count=row["count"]) for row in found)
