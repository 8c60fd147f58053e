"""Accepting a job: found in the cache, joined to a render in flight, or queued."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from psycopg.types.json import Jsonb

from jobstore.job import CacheOutcome, Job, NewJob, Picture
from jobstore.postgres.clients import position
from jobstore.postgres.moves import tell
from jobstore.postgres.rows import Connection, Row, add_pictures, one, sole, to_job

_IN_FLIGHT = """
SELECT * FROM job
WHERE fingerprint = %(fingerprint)s AND joinable AND leader_id IS NULL AND state IN ('scheduled', 'queued', 'running')
FOR UPDATE
"""
_TAKE_FORWARD = """
UPDATE job SET rank_at = least(rank_at, clock_timestamp() + (5 - %(priority)s) * make_interval(secs => %(quantum)s))
WHERE id = %(id)s AND state = 'queued'
"""
_INSERT = """
INSERT INTO job (
    id, state, lane, model, batch_key, rank_at, request, format, fingerprint, seedless_fingerprint, joinable, cache,
    leader_id, key_id, dimensions, currency, price, reserved, max_attempts, attempts_allowed, start_at,
    created_at, started_at, finished_at, deadline_at
)
SELECT
    %(id)s, s.state, %(lane)s, %(model)s, %(batch_key)s,
    s.now + (5 - %(priority)s) * make_interval(secs => %(quantum)s),
    %(request)s, %(format)s, %(fingerprint)s, %(seedless_fingerprint)s, %(joinable)s, %(cache)s, %(leader_id)s,
    %(key_id)s, %(dimensions)s, %(currency)s, %(price)s, %(reserved)s, %(max_attempts)s, %(max_attempts)s,
    %(start_at)s, s.now, CASE WHEN s.state IN ('running', 'succeeded') THEN s.now END,
    CASE WHEN s.state = 'succeeded' THEN s.now END, s.now + make_interval(secs => %(deadline_s)s)
FROM (
    SELECT clock_timestamp() AS now,
           CASE WHEN %(state)s = 'queued' AND %(start_at)s::timestamptz > clock_timestamp() THEN 'scheduled'
                ELSE %(state)s END AS state
) AS s
RETURNING *
"""


async def submit(connection: Connection, new: NewJob, pictures: Sequence[Picture]) -> Job:
    """Accept ``new``. Raises psycopg.errors.UniqueViolation where an identical submit won the race: try again."""
    if pictures:
        row = await _insert(connection, new, state="succeeded", cache=CacheOutcome.HIT)
        await add_pictures(connection, new.id, pictures)
        return to_job(row, pictures)
    leader = None if new.request.start_at else await one(connection, _IN_FLIGHT, {"fingerprint": new.fingerprint})
    if leader is not None and new.request.cache.reads:
        row = await _join(connection, new, leader)
        return to_job(row, queue_position=await position(connection, row))
    joinable = new.request.cache.writes and new.request.start_at is None and leader is None
    row = await _insert(connection, new, joinable=joinable, reserved=new.price)
    return to_job(row, queue_position=await position(connection, row))


async def _join(connection: Connection, new: NewJob, leader: Row) -> Row:
    """Follow ``leader`` (locked). A joining job of higher priority takes the leader forward."""
    await connection.execute(
        _TAKE_FORWARD,
        {"id": leader["id"], "priority": new.request.priority, "quantum": new.priority_quantum_s},
    )
    return await _insert(
        connection, new, state=leader["state"], cache=CacheOutcome.JOINED, leader_id=leader["id"], joinable=True
    )


async def _insert(connection: Connection, new: NewJob, **decided: Any) -> Row:
    request = new.request
    arguments = {
        "state": "queued", "cache": CacheOutcome.MISS, "leader_id": None, "joinable": False, "reserved": 0,
        "id": new.id, "lane": new.lane, "model": request.model, "batch_key": new.batch_key,
        "priority": request.priority, "quantum": new.priority_quantum_s,
        "request": Jsonb(msgspec.to_builtins(request)), "format": request.format,
        "fingerprint": new.fingerprint, "seedless_fingerprint": new.seedless_fingerprint, "key_id": new.key_id,
        "dimensions": Jsonb(new.dimensions), "currency": new.currency, "price": new.price,
        "max_attempts": new.max_attempts, "start_at": request.start_at, "deadline_s": request.deadline_s,
    }  # fmt: skip
    row = await sole(connection, _INSERT, arguments | decided)
    await tell(connection, row, cache=row["cache"])
    return row
