"""Reading jobs: one, a page of them, and where they stand in the queue."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from jobstore.errors import JobNotFoundError
from jobstore.job import Job, JobState
from jobstore.operating.jobs import Counted, JobFilter, JobPage
from jobstore.rules.rows import Row, to_job
from jobstore.sqlite.database import Database, now
from jobstore.sqlite.finding import Search
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


async def standing(database: Database, row: Row) -> tuple[int, float | None] | None:
    """The place in its lane's queue, from 1, and the seconds until the start; those of its leader if it joined."""
    if row["state"] != JobState.QUEUED:
        return None
    if row["leader_id"] is not None:
        row = await database.one("SELECT * FROM job WHERE id = :leader_id", row) or row
    values = {name: row[name] for name in ("lane", "rank_at", "seq")} | {"counted": COUNTED}
    ahead = await database.one(_AHEAD, values)
    devices, _ = await devices_of(database, row["lane"])
    if ahead is None or ahead["jobs"] == COUNTED:
        return None
    return ahead["jobs"] + 1, ahead["seconds"] / devices if devices else None


async def devices_of(database: Database, lane: str) -> tuple[int, int]:
    """How many workers live and take further jobs of the lane, and how many jobs these hold at once together."""
    query = """
    SELECT lanes, coalesce(report ->> '$.slots', 0) AS slots FROM worker
    WHERE seen_at >= :now - 1000000 * lease_s AND drain_asked_at IS NULL
    """
    slots = [row["slots"] for row in await database.every(query, {"now": now()}) if lane in row["lanes"]]
    return len(slots), sum(slots)


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


async def get_many(database: Database, job_ids: Sequence[UUID]) -> tuple[Job, ...]:
    """The jobs of these ids, without their places."""
    rows = SqliteRows(database)
    found = [row for job_id in job_ids if (row := await rows.read_job(job_id)) is not None]
    pictures = await rows.pictures_of([row["id"] for row in found])
    return tuple(to_job(row, pictures.get(row["id"], ())) for row in found)


async def list_jobs(database: Database, where: JobFilter) -> JobPage:
    """One page, newest first."""
    search = await Search.of(database, where)
    found = await search.rows(database, where.limit + 1)
    more, found = len(found) > where.limit, found[: where.limit]
    last = None if more else await search.end(database)
    end = found[-1] if more else last
    pictures = await SqliteRows(database).pictures_of([row["id"] for row in found])
    return JobPage(
        jobs=tuple(to_job(row, pictures.get(row["id"], ())) for row in found),
        next_cursor=None if end is None else search.cursor(end),
        stopped_early=last is not None,
    )


async def count_jobs(database: Database, where: JobFilter, most: int) -> Counted:
    """How many jobs the filter names, up to ``most``."""
    search = await Search.of(database, msgspec.structs.replace(where, cursor=None))
    return await search.count(database, most)


async def count_letters(database: Database, where: JobFilter, most: int) -> Counted:
    """How many failed and dead jobs the filter names, up to ``most``."""
    return await Search.of_letters(msgspec.structs.replace(where, cursor=None)).count(database, most)
