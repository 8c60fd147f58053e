"""Reading jobs: one, or a page of them."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from jobstore.errors import JobNotFoundError
from jobstore.job import Job, JobState
from jobstore.operating.jobs import Counted, JobFilter, JobPage
from jobstore.postgres.columns import Connection, every, one
from jobstore.postgres.finding import Search
from jobstore.postgres.rows import pictures_of
from jobstore.postgres.standing import standing
from jobstore.rules.rows import Row, to_job


async def get(connection: Connection, job_id: UUID) -> Job:
    """The job with its pictures and its place in the queue."""
    row = await one(connection, "SELECT * FROM any_job WHERE id = %(id)s", {"id": job_id})
    if row is None:
        raise JobNotFoundError(f"no job {job_id}")
    return await told(connection, row)


async def get_many(connection: Connection, job_ids: Sequence[UUID]) -> tuple[Job, ...]:
    """The jobs of these ids, without their places."""
    found = await every(connection, "SELECT * FROM any_job WHERE id = ANY(%(ids)s)", {"ids": list(job_ids)})
    pictures = await pictures_of(connection, [row["id"] for row in found])
    return tuple(to_job(row, pictures.get(row["id"], ())) for row in found)


async def list_jobs(connection: Connection, where: JobFilter) -> JobPage:
    """One page, newest first."""
    search = await Search.of(connection, where)
    found = await search.rows(connection, where.limit + 1)
    more, found = len(found) > where.limit, found[: where.limit]
    last = None if more else await search.end(connection)
    end = found[-1] if more else last
    pictures = await pictures_of(connection, [row["id"] for row in found])
    return JobPage(
        jobs=tuple(to_job(row, pictures.get(row["id"], ())) for row in found),
        next_cursor=None if end is None else search.cursor(end),
        stopped_early=last is not None,
    )


async def count_jobs(connection: Connection, where: JobFilter, most: int) -> Counted:
    """How many jobs the filter names, up to ``most``."""
    search = await Search.of(connection, msgspec.structs.replace(where, cursor=None))
    return await search.count(connection, most)


async def count_letters(connection: Connection, where: JobFilter, most: int) -> Counted:
    """How many failed and dead jobs the filter names, up to ``most``."""
    return await Search.of_letters(msgspec.structs.replace(where, cursor=None)).count(connection, most)


async def told(connection: Connection, row: Row) -> Job:
    """The job of a row, with its pictures and its place in the queue."""
    found = await pictures_of(connection, [row["id"]]) if row["state"] == JobState.SUCCEEDED else {}
    return to_job(row, found.get(row["id"], ()), await standing(connection, row))
