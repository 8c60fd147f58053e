"""Lanes: what waits in them, and whether they are open."""

from __future__ import annotations

import time
from typing import Any

from jobstore.audit import Actor, AuditNote
from jobstore.ids import first_since
from jobstore.job import JobState
from jobstore.protocol import Backlog, Lane, LaneCount
from jobstore.sqlite.claims import add_lane
from jobstore.sqlite.database import Database, now
from jobstore.sqlite.keys import write_note
from jobstore.sqlite.listing import devices_of

_BELLS = 100
_LOAD = """
SELECT sum(state = 'scheduled') AS scheduled, sum(state = 'queued') AS queued, sum(state = 'running') AS running,
    sum(iif(state = 'queued' AND leader_id IS NULL, expected_s, 0.0)) AS waiting_s,
    (:now - min(iif(state = 'queued', created_at, NULL))) / 1e6 AS oldest_s
FROM job WHERE lane = :name AND state IN ('scheduled', 'queued', 'running')
"""


async def lanes(database: Database) -> tuple[Lane, ...]:
    """All lanes, by name."""
    return tuple([await _lane(database, row) for row in await database.every("SELECT * FROM lane ORDER BY name")])


async def _lane(database: Database, row: dict[str, Any]) -> Lane:
    load = await database.one(_LOAD, {"name": row["name"], "now": now()}) or {}
    known = {name: value for name, value in load.items() if value is not None}
    devices, slots = await devices_of(database, row["name"])
    open_or_not = {"paused_at": row["paused_at"], "reason": row["reason"]}
    return Lane(name=row["name"], devices=devices, slots=slots, **open_or_not, **known)


async def arriving(database: Database, seconds: float) -> dict[str, float]:
    """By lane, the devices that would keep up with what came in so many seconds."""
    query = """
    SELECT lane, sum(expected_s) / :seconds AS devices FROM job WHERE id >= :since AND cache = 'miss' GROUP BY lane
    """
    rows = await database.every(query, {"seconds": seconds, "since": str(first_since(time.time() - seconds))})
    return {row["lane"]: row["devices"] for row in rows}


async def backlog(database: Database) -> Backlog:
    """What waits, by lane and by key."""
    query = "SELECT key_id, count(*) AS waiting FROM job WHERE state IN ('scheduled', 'queued') GROUP BY key_id"
    keys = {row["key_id"]: row["waiting"] for row in await database.every(query)}
    return Backlog(lanes={lane.name: lane for lane in await lanes(database)}, keys=keys)


async def pause(database: Database, name: str, reason: str, by: Actor | None) -> None:
    """Close a lane; one that is closed stays so from its first time on."""
    await add_lane(database, name)
    query = "UPDATE lane SET paused_at = coalesce(paused_at, :now), reason = :reason WHERE name = :name"
    await database.execute(query, {"name": name, "reason": reason, "now": now()})
    if by is not None:
        await write_note(database, AuditNote(by=by, action="lane.paused", target=name, details={"reason": reason}))


async def resume(database: Database, name: str, by: Actor | None) -> tuple[str, ...]:
    """Open a lane; bells for what waits, within a bound: the sweeper rings for the rest."""
    query = "UPDATE lane SET paused_at = NULL, reason = '' WHERE name = :name AND paused_at IS NOT NULL"
    if not await database.execute(query, {"name": name}):
        return ()
    if by is not None:
        await write_note(database, AuditNote(by=by, action="lane.resumed", target=name))
    waiting = "SELECT lane FROM job WHERE state = 'queued' AND leader_id IS NULL AND lane = :name LIMIT :limit"
    return tuple(row["lane"] for row in await database.every(waiting, {"name": name, "limit": _BELLS}))


async def counts(database: Database) -> tuple[LaneCount, ...]:
    """Unfinished jobs by lane and state."""
    query = (
        "SELECT lane, state, count(*) AS count FROM job WHERE state IN ('scheduled', 'queued', 'running') "
        "GROUP BY lane, state"
    )
    found = await database.every(query)
    return tuple(LaneCount(lane=row["lane"], state=JobState(row["state"]), count=row["count"]) for row in found)
