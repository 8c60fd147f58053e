"""The worker's side: claims and beats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from jobstore.operating.workers import WorkerReport
from jobstore.postgres.columns import Connection, every, one, sole
from jobstore.postgres.rows import PostgresRows
from jobstore.protocol import Beat, HeldLease, Lease, Pace, Worker
from jobstore.rules import reaper
from jobstore.rules.fairness import ADVANCE_BOUND_S, MATES_BOUND_S
from jobstore.rules.rows import Row, to_job

_SEEN = """
INSERT INTO worker (id, host, pid, device, lanes, lease_s)
VALUES (%(worker_id)s, %(host)s, %(pid)s, %(device)s, %(serves)s, %(lease_s)s)
ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp()
"""
_BEAT = """
INSERT INTO worker (id, host, pid, device, lanes, lease_s, report)
VALUES (%(worker_id)s, %(host)s, %(pid)s, %(device)s, %(serves)s, %(lease_s)s, %(report)s)
ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp(), report = coalesce(EXCLUDED.report, worker.report)
RETURNING drain_asked_at IS NOT NULL AS drain
"""
_SERVED = "INSERT INTO lane (name) SELECT unnest(%(serves)s::text[]) ON CONFLICT (name) DO NOTHING"
_ALIVE = """
SELECT id, host, pid, device, lanes, lease_s FROM worker
WHERE seen_at >= clock_timestamp() - make_interval(secs => %(within_s)s) AND left_at IS NULL ORDER BY started_at, id
"""
_IN_TIME = """
(deadline_at IS NULL OR deadline_at > clock_timestamp())
AND (start_by IS NULL OR started_at IS NOT NULL OR start_by > clock_timestamp())
"""
# The same as ``fairness.advanced``.
_MOVE_ON = """
UPDATE lane SET served_at = clock_timestamp(), virtual_s = greatest(
    lane.virtual_s,
    started.start_tag,
    least(greatest(lane.virtual_s, started.start_tag) + started.share_s / (2 * lane.tenants + 1),
          started.start_tag + %(advance_bound_s)s)
)
"""
# One index scan a lane; the heads that are not taken are let go at commit. Lanes have clocks of their own, so a
# worker of several takes from them in turn. A mate may jump the line only over jobs that
# stand at most so many virtual seconds before it. The lane's clock is moved on unless somebody else is at it.
_CLAIM = f"""
WITH open AS MATERIALIZED (
    SELECT name, served_at FROM lane WHERE name = ANY(%(lanes)s) AND paused_at IS NULL
      AND NOT EXISTS (SELECT FROM worker WHERE id = %(worker_id)s AND drain_asked_at IS NOT NULL)
),
heads AS MATERIALIZED (
    SELECT head.* FROM open CROSS JOIN LATERAL (
        SELECT id, lane, rank_at, seq, batch_key, open.served_at FROM job
        WHERE state = 'queued' AND leader_id IS NULL AND lane = open.name AND {_IN_TIME}
        ORDER BY rank_at, seq LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ) AS head
),
head AS MATERIALIZED (SELECT * FROM heads ORDER BY served_at NULLS FIRST, seq LIMIT 1),
mate AS MATERIALIZED (
    SELECT found.id FROM head CROSS JOIN LATERAL (
        SELECT id FROM job
        WHERE state = 'queued' AND leader_id IS NULL AND lane = head.lane AND batch_key = %(prefer)s
          AND rank_at <= head.rank_at + %(mates_bound_s)s AND {_IN_TIME}
        ORDER BY rank_at, seq LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ) AS found
    WHERE head.batch_key <> %(prefer)s
),
chosen AS (SELECT id FROM mate UNION ALL SELECT id FROM head WHERE NOT EXISTS (SELECT FROM mate)),
started AS (
    UPDATE job SET
        state = 'running', attempts = attempts + 1, lease_token = nextval('lease_token'), worker_id = %(worker_id)s,
        error = NULL, started_at = coalesce(started_at, clock_timestamp())
    FROM chosen WHERE job.id = chosen.id AND NOT job.followed RETURNING job.*
),
told AS (
    INSERT INTO job_event (job_id, kind, data)
    SELECT id, 'state', jsonb_build_object('state', state, 'attempt', attempts) FROM started
),
seen AS ({_SEEN} WHERE worker.seen_at < clock_timestamp() - interval '100 milliseconds'),
clock AS MATERIALIZED (
    SELECT lane.name FROM lane JOIN started ON lane.name = started.lane FOR NO KEY UPDATE OF lane SKIP LOCKED
),
moved_on AS ({_MOVE_ON} FROM started, clock WHERE lane.name = clock.name)
SELECT * FROM chosen LEFT JOIN started USING (id)
"""
_MOVE_ON_FOR = f"{_MOVE_ON} FROM job AS started WHERE started.id = %(id)s AND lane.name = started.lane"
_CHOSEN = f"""
SELECT * FROM job WHERE id = %(id)s AND state = 'queued' AND leader_id IS NULL AND {_IN_TIME} FOR NO KEY UPDATE
"""
_HELD = """
SELECT lease_token AS token, id AS job_id, cancel_requested FROM job
WHERE worker_id = %(worker_id)s AND lease_token IS NOT NULL
"""
_PACES = """
INSERT INTO pace AS known (model, width, height, device, step_s)
SELECT * FROM jsonb_to_recordset(%(paces)s) AS new
    (model text, width integer, height integer, device text, step_s double precision)
ORDER BY 1, 2, 3, 4
ON CONFLICT (model, width, height, device) DO UPDATE SET
    step_s = (known.step_s + EXCLUDED.step_s) / 2, seen_at = clock_timestamp()
"""


def _seen(worker: Worker) -> dict[str, Any]:
    return {
        "worker_id": worker.id,
        "host": worker.host,
        "pid": worker.pid,
        "device": worker.device,
        "serves": list(worker.lanes),
        "lease_s": worker.lease_s,
    }


async def workers(connection: Connection, within_s: float) -> tuple[Worker, ...]:
    """Those seen within so many seconds, in the order in which they started."""
    found = await every(connection, _ALIVE, {"within_s": within_s})
    return tuple(Worker(**{**row, "lanes": tuple(row["lanes"])}) for row in found)


async def claim(connection: Connection, worker: Worker, lanes: Sequence[str], prefer: str | None) -> Row | None:
    """Take the next job under a fresh token; its row.

    Of one that others joined only the ``id`` is told, and no ``lease_token``: the rules must take it.
    """
    arguments = _seen(worker) | {
        "lanes": sorted(set(lanes)),
        "prefer": prefer,
        "mates_bound_s": MATES_BOUND_S,
        "advance_bound_s": ADVANCE_BOUND_S,
    }
    return await one(connection, _CLAIM, arguments)


def lease_of(row: Row) -> Lease:
    """The lease of a row that was claimed."""
    return Lease(token=row["lease_token"], job=to_job(row))


async def claim_by_rules(rows: PostgresRows, job_id: UUID, worker: Worker) -> Lease | None:
    """Take a job that others joined; None where somebody else was quicker."""
    job = await one(rows.connection, _CHOSEN, {"id": job_id})
    if job is None:
        return None
    await rows.connection.execute(_MOVE_ON_FOR, {"id": job_id, "advance_bound_s": ADVANCE_BOUND_S})
    token = (await sole(rows.connection, "SELECT nextval('lease_token') AS token", {}))["token"]
    return await reaper.start(rows, job, token, worker.id)


async def beat(connection: Connection, worker: Worker, paces: Sequence[Pace], report: WorkerReport | None) -> Beat:
    """Note that the worker lives and what it measured, and read what it holds."""
    seen = _seen(worker)
    told = None if report is None else Jsonb(msgspec.to_builtins(report))
    drain: bool = (await sole(connection, _BEAT, seen | {"report": told}))["drain"]
    await connection.execute(_SERVED, seen)
    if paces:
        await connection.execute(_PACES, {"paces": Jsonb(msgspec.to_builtins(paces))})
    held = await every(connection, _HELD, {"worker_id": worker.id})
    return Beat(held=tuple(HeldLease(**row) for row in held), drain=drain)


async def leave(connection: Connection, worker_id: UUID) -> None:
    """Take a worker off the list."""
    query = "UPDATE worker SET left_at = clock_timestamp(), lease_s = 0 WHERE id = %(id)s"
    await connection.execute(query, {"id": worker_id})


async def paces(connection: Connection) -> tuple[Pace, ...]:
    """All that was measured."""
    query = "SELECT model, width, height, device, step_s FROM pace ORDER BY model, width, height, device"
    return tuple(Pace(**row) for row in await every(connection, query, {}))
