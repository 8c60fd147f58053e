"""Fenced writes: whatever a worker says of a job counts only under the token that the job is held by."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from jobstore.job import CacheMode, CacheOutcome, JobError, JobState
from jobstore.postgres.moves import detach, followers_of, move
from jobstore.postgres.rows import Connection, Row, add_pictures, locked, one, sole, with_pictures
from jobstore.protocol import Finish, Settled

_CACHE = """
INSERT INTO cache_entry (fingerprint, seedless_fingerprint, pictures)
VALUES (%(fingerprint)s, %(seedless_fingerprint)s, %(pictures)s)
ON CONFLICT (fingerprint) DO UPDATE SET pictures = EXCLUDED.pictures, created_at = clock_timestamp()
"""
_USAGE = """
INSERT INTO usage (job_id, attempt, key_id, model, device, outcome, gpu_seconds, charged, currency, dimensions)
SELECT id, attempts, key_id, model, %(device)s, state, %(gpu_seconds)s, charged, currency, dimensions
FROM job WHERE id = %(id)s
"""


async def held(connection: Connection, token: int) -> Row | None:
    """The job that is held under ``token``, locked; None when the token is old.

    A lease that goes over to another job while this waits for the lock is found at the second look.
    """
    query = "SELECT * FROM job WHERE lease_token = %(token)s FOR UPDATE"
    return await one(connection, query, {"token": token}) or await one(connection, query, {"token": token})


async def finish(connection: Connection, token: int, result: Finish) -> Settled | None:
    """The job has its pictures, and so have those that joined."""
    leader = await held(connection, token)
    if leader is None:
        return None
    followers = await followers_of(connection, leader["id"])
    alike = [row for row in followers if row["format"] == leader["format"]]
    rendered = result.cache is CacheOutcome.MISS
    await _give(connection, leader["id"], result, leader["reserved"] if rendered else Decimal(0), result.cache)
    await _record(connection, leader["id"], result.gpu_seconds, result.device)
    for row in alike:
        shared = msgspec.structs.replace(result, gpu_seconds=Decimal(0))
        await _give(connection, row["id"], shared, Decimal(0), CacheOutcome.JOINED)
        await _record(connection, row["id"], Decimal(0), result.device)
    if rendered and CacheMode(leader["request"]["cache"]).writes:
        await _remember(connection, leader, result)
    ring = await detach(connection, [row for row in followers if row not in alike], reason="another file format")
    return await _settled(connection, leader["id"], ring)


async def fail(connection: Connection, token: int, error: JobError, retry_in_s: float | None) -> Settled | None:
    """The render failed: for good, to be tried again, or once too often."""
    leader = await held(connection, token)
    if leader is None:
        return None
    followers = await followers_of(connection, leader["id"])
    ring: tuple[str, ...] = ()
    if error.code == "deadline_exceeded" and not await _late(connection, leader):
        # The worker kept the deadline of the job from which this one took over the lease.
        await give_back(connection, leader, reason=error.code)
        return await _settled(connection, leader["id"], (leader["lane"],))
    if not error.concerns_render:
        ring, followers = await detach(connection, followers, reason=error.code), []
    ids = [leader["id"], *(row["id"] for row in followers)]
    told = Jsonb(msgspec.to_builtins(error))
    if retry_in_s is None:
        await move(connection, ids, JobState.FAILED, error=told)
    elif leader["attempts"] >= leader["attempts_allowed"]:
        await move(connection, ids, JobState.DEAD, error=told, reason="attempts used up")
    elif retry_in_s > 0:
        await move(connection, ids, JobState.SCHEDULED, error=told, delay=retry_in_s, retry_in_s=retry_in_s)
    else:
        await move(connection, ids, JobState.QUEUED, error=told, reason="retried")
        ring = (*ring, leader["lane"])
    await _record(connection, leader["id"], Decimal(0), "")
    return await _settled(connection, leader["id"], ring)


async def _late(connection: Connection, row: Row) -> bool:
    """True when the job's own deadline has passed, by the database's clock (a moment's slack for the worker's)."""
    query = "SELECT %(deadline_at)s::timestamptz < clock_timestamp() + interval '1 second' AS late"
    return bool((await sole(connection, query, row))["late"])


async def canceled(connection: Connection, token: int, gpu_seconds: Decimal) -> Settled | None:
    """The worker stopped on request."""
    leader = await held(connection, token)
    if leader is None:
        return None
    ring = await detach(connection, await followers_of(connection, leader["id"]), reason="leader canceled")
    await connection.execute("UPDATE job SET gpu_seconds = %s WHERE id = %s", [gpu_seconds, leader["id"]])
    await move(connection, [leader["id"]], JobState.CANCELED)
    await _record(connection, leader["id"], gpu_seconds, "")
    return await _settled(connection, leader["id"], ring)


async def release(connection: Connection, token: int) -> Settled | None:
    """The worker hands the job back; no attempt is counted."""
    leader = await held(connection, token)
    if leader is None:
        return None
    await give_back(connection, leader, reason="handed back")
    return await _settled(connection, leader["id"], (leader["lane"],))


async def give_back(connection: Connection, leader: Row, reason: str, rescues: int = 0) -> None:
    """Queue a running job (locked) and those that joined it anew, in their old place."""
    ids = [leader["id"], *(row["id"] for row in await followers_of(connection, leader["id"]))]
    await connection.execute(
        "UPDATE job SET attempts = greatest(attempts - 1, 0), rescues = rescues + %s WHERE id = ANY(%s)", [rescues, ids]
    )
    await move(connection, ids, JobState.QUEUED, reason=reason)


async def _give(connection: Connection, job_id: UUID, result: Finish, charged: Decimal, cache: CacheOutcome) -> None:
    await connection.execute(
        "UPDATE job SET charged = %s, gpu_seconds = %s, warnings = %s, cache = %s WHERE id = %s",
        [charged, result.gpu_seconds, Jsonb(list(result.warnings)), cache, job_id],
    )
    await add_pictures(connection, job_id, result.pictures)
    await move(connection, [job_id], JobState.SUCCEEDED, cache=cache)


async def _remember(connection: Connection, leader: Row, result: Finish) -> None:
    arguments: dict[str, Any] = {name: leader[name] for name in ("fingerprint", "seedless_fingerprint")}
    await connection.execute(_CACHE, arguments | {"pictures": Jsonb(msgspec.to_builtins(result.pictures))})


async def _record(connection: Connection, job_id: UUID, gpu_seconds: Decimal, device: str) -> None:
    await connection.execute(_USAGE, {"id": job_id, "gpu_seconds": gpu_seconds, "device": device})


async def _settled(connection: Connection, job_id: UUID, ring: tuple[str, ...]) -> Settled:
    return Settled(job=await with_pictures(connection, await locked(connection, job_id)), ring=ring)
