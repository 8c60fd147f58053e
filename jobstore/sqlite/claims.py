"""The worker's side: claims and beats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from jobstore.operating.workers import WorkerReport
from jobstore.protocol import Beat, HeldLease, Lease, Pace, Worker
from jobstore.rules import reaper
from jobstore.rules.fairness import MATES_BOUND_S, advanced
from jobstore.rules.rows import Row
from jobstore.sqlite.database import Database, now
from jobstore.sqlite.rows import SqliteRows

_SEEN = """
INSERT INTO worker (id, host, pid, device, lanes, lease_s, started_at, seen_at)
VALUES (:id, :host, :pid, :device, :lanes, :lease_s, :now, :now)
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
"""
_WAITING = """
state = 'queued' AND leader_id IS NULL AND lane = :lane AND (deadline_at IS NULL OR deadline_at > :now)
AND (start_by IS NULL OR started_at IS NOT NULL OR start_by > :now)
"""
_HEAD = f"""
SELECT job.*, served_at FROM job JOIN lane ON lane.name = job.lane AND lane.paused_at IS NULL WHERE {_WAITING}
ORDER BY rank_at, seq LIMIT 1
"""
_MATE = f"""
SELECT * FROM job WHERE {_WAITING} AND batch_key = :prefer AND rank_at <= :most ORDER BY rank_at, seq LIMIT 1
"""
_PACE = """
INSERT INTO pace (model, width, height, device, step_s, seen_at)
VALUES (:model, :width, :height, :device, :step_s, :now)
ON CONFLICT (model, width, height, device) DO UPDATE SET
    step_s = (step_s + excluded.step_s) / 2, seen_at = excluded.seen_at
"""


async def claim(rows: SqliteRows, worker: Worker, lanes: Sequence[str], prefer: str | None) -> Lease | None:
    """Take the next job under a fresh token."""
    await _see(rows.database, worker)
    asked = await rows.database.one("SELECT drain_asked_at FROM worker WHERE id = :id", {"id": worker.id})
    if asked is not None and asked["drain_asked_at"] is not None:
        return None
    heads = [await rows.database.one(_HEAD, {"lane": lane, "now": now()}) for lane in sorted(set(lanes))]
    found = [head for head in heads if head is not None]
    if not found:
        return None
    # Lanes have clocks of their own, so a worker of several takes from them in turn.
    job = min(found, key=lambda head: (head["served_at"] is not None, head["served_at"], head["seq"]))
    if prefer is not None and job["batch_key"] != prefer:
        job = await _mate(rows.database, job, prefer) or job
    await _advance(rows.database, job)
    await rows.database.execute("UPDATE counter SET value = value + 1 WHERE name = 'lease_token'")
    token = await rows.database.one("SELECT value FROM counter WHERE name = 'lease_token'")
    if token is None:
        raise LookupError("the store has no counter of lease tokens")
    return await reaper.start(rows, job, token["value"], worker.id)


async def _mate(database: Database, head: Row, prefer: str) -> Row | None:
    most = head["rank_at"] + MATES_BOUND_S
    return await database.one(_MATE, {"lane": head["lane"], "prefer": prefer, "most": most, "now": now()})


async def _advance(database: Database, job: Row) -> None:
    lane = await database.one("SELECT * FROM lane WHERE name = :lane", job)
    if lane is not None:
        virtual_s = advanced(lane["virtual_s"], job["start_tag"], job["share_s"], lane["tenants"])
        values = {"lane": job["lane"], "virtual_s": virtual_s}
        query = "UPDATE lane SET virtual_s = :virtual_s, served_at = :now WHERE name = :lane"
        await database.execute(query, values | {"now": now()})


async def add_lane(database: Database, name: str) -> None:
    """Give a lane its row."""
    await database.execute("INSERT INTO lane (name) VALUES (:name) ON CONFLICT (name) DO NOTHING", {"name": name})


async def _see(database: Database, worker: Worker) -> None:
    values: dict[str, Any] = {**msgspec.structs.asdict(worker), "lanes": list(worker.lanes), "now": now()}
    await database.execute(_SEEN, values)


async def beat(database: Database, worker: Worker, paces: Sequence[Pace], report: WorkerReport | None) -> Beat:
    """Note that the worker lives and what it measured, and read what it holds."""
    await _see(database, worker)
    if report is not None:
        told = {"id": worker.id, "report": msgspec.to_builtins(report)}
        await database.execute("UPDATE worker SET report = :report WHERE id = :id", told)
    for lane in worker.lanes:
        await add_lane(database, lane)
    for pace in paces:
        await database.execute(_PACE, {**msgspec.structs.asdict(pace), "now": now()})
    held = await database.every(
        "SELECT lease_token AS token, id AS job_id, cancel_requested FROM job "
        "WHERE worker_id = :id AND lease_token IS NOT NULL",
        {"id": worker.id},
    )
    row = await database.one("SELECT drain_asked_at FROM worker WHERE id = :id", {"id": worker.id})
    drain = row is not None and row["drain_asked_at"] is not None
    return Beat(held=tuple(HeldLease(**row) for row in held), drain=drain)


async def leave(database: Database, worker_id: UUID) -> None:
    """Take a worker off the list."""
    query = "UPDATE worker SET left_at = :now, lease_s = 0 WHERE id = :id"
    await database.execute(query, {"id": worker_id, "now": now()})


async def workers(database: Database, within_s: float) -> tuple[Worker, ...]:
    """Those seen within so many seconds, in the order in which they started."""
    query = (
        "SELECT id, host, pid, device, lanes, lease_s FROM worker "
        "WHERE seen_at >= :since AND left_at IS NULL ORDER BY started_at, id"
    )
    found = await database.every(query, {"since": now() - round(1e6 * within_s)})
    return tuple(Worker(**{**row, "lanes": tuple(row["lanes"])}) for row in found)


async def paces(database: Database) -> tuple[Pace, ...]:
    """All that was measured."""
    query = "SELECT model, width, height, device, step_s FROM pace ORDER BY model, width, height, device"
    return tuple(Pace(**row) for row in await database.every(query))
