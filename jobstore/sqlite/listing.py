"""Reading jobs: one, a page of them, and where they stand in the queue."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jobstore.errors import JobNotFoundError
from jobstore.job import Job, JobState
from jobstore.protocol import JobFilter, JobPage
from jobstore.rules.cursors import decoded, encoded
from jobstore.rules.rows import Row, to_job
from jobstore.sqlite.database import Database, now
from jobstore.sqlite.rows import SqliteRows

COUNTED = 1_000
"""How many jobs before one are counted; further back its place is not told."""

_AHEAD = """
SELECT count(*) AS jobs, coalesce(sum(expected_s), 0) AS seconds FROM (
    SELECT expected_s FROM job
    WHERE state = 'queued' AND leader_id IS NULL AND lane = :lane AND (rank_at, seq) < (:rank_at, :seq)
    LIMIT :counted
)
"""
_LIST = """
SELECT * FROM job WHERE (:state IS NULL OR state = :state) AND (:model IS NULL OR model = :model)
AND (:key_id IS NULL OR key_id = :key_id) AND (:before IS NULL OR seq < :before) ORDER BY seq DESC LIMIT :limit
"""


async def standing(database: Database, row: Row) -> tuple[int, float | None] | None:
    """The place in its lane's queue, from 1, and the seconds until the start; those of its leader if it joined."""
    if row["state"] != JobState.QUEUED:
        return None
    if row["leader_id"] is not None:
        row = await database.one("SELECT * FROM job WHERE id = :leader_id", row) or row
    values = {name: row[name] for name in ("lane", "rank_at", "seq")} | {"counted": COUNTED}
    ahead = await database.one(_AHEAD, values)
    devices = await devices_of(database, row["lane"])
    if ahead is None or ahead["jobs"] == COUNTED:
        return None
    return ahead["jobs"] + 1, ahead["seconds"] / devices if devices else None


async def devices_of(database: Database, lane: str) -> int:
    """How many workers live and serve the lane."""
    query = "SELECT lanes FROM worker WHERE seen_at >= :now - 1000000 * lease_s"
    found = await database.every(query, {"now": now()})
    return sum(lane in row["lanes"] for row in found)


async def get(rows: SqliteRows, job_id: UUID) -> Job:
    """The job with its pictures and its place in the queue."""
    row = await rows.lock_job(job_id)
    if row is None:
        raise JobNotFoundError(f"no job {job_id}")
    return await told(rows, row)


async def told(rows: SqliteRows, row: Row) -> Job:
    """The job of a row, with its pictures and its place in the queue."""
    found = await rows.pictures_of([row["id"]])
    return to_job(row, found.get(row["id"], ()), await standing(rows.database, row))


async def list_jobs(rows: SqliteRows, where: JobFilter) -> JobPage:
    """One page, newest first."""
    values: dict[str, Any] = {"state": where.state, "model": where.model, "key_id": where.key_id}
    values |= {"before": decoded(where.cursor), "limit": where.limit + 1}
    found = await rows.database.every(_LIST, values)
    more, found = len(found) > where.limit, found[: where.limit]
    pictures = await rows.pictures_of([row["id"] for row in found])
    return JobPage(
        jobs=tuple(to_job(row, pictures.get(row["id"], ())) for row in found),
        next_cursor=encoded(found[-1]["seq"]) if more else None,
    )
