"""Reading jobs: one, or a page of them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jobstore.errors import JobNotFoundError
from jobstore.job import Job, JobState
from jobstore.postgres.columns import Connection, every, one
from jobstore.postgres.rows import pictures_of
from jobstore.postgres.standing import standing
from jobstore.protocol import JobFilter, JobPage
from jobstore.rules.cursors import decoded, encoded
from jobstore.rules.rows import Row, to_job

_LIST = """
SELECT * FROM any_job
WHERE (%(state)s::text IS NULL OR state = %(state)s) AND (%(model)s::text IS NULL OR model = %(model)s)
  AND (%(key_id)s::uuid IS NULL OR key_id = %(key_id)s) AND (%(before)s::bigint IS NULL OR seq < %(before)s)
ORDER BY seq DESC LIMIT %(limit)s
"""


async def get(connection: Connection, job_id: UUID) -> Job:
    """The job with its pictures and its place in the queue."""
    row = await one(connection, "SELECT * FROM any_job WHERE id = %(id)s", {"id": job_id})
    if row is None:
        raise JobNotFoundError(f"no job {job_id}")
    return await told(connection, row)


async def list_jobs(connection: Connection, where: JobFilter) -> JobPage:
    """One page, newest first."""
    arguments: dict[str, Any] = {
        "state": where.state,
        "model": where.model,
        "key_id": where.key_id,
        "before": decoded(where.cursor),
        "limit": where.limit + 1,
    }
    rows = await every(connection, _LIST, arguments)
    more, rows = len(rows) > where.limit, rows[: where.limit]
    found = await pictures_of(connection, [row["id"] for row in rows])
    return JobPage(
        jobs=tuple(to_job(row, found.get(row["id"], ())) for row in rows),
        next_cursor=encoded(rows[-1]["seq"]) if more else None,
    )


async def told(connection: Connection, row: Row) -> Job:
    """The job of a row, with its pictures and its place in the queue."""
    found = await pictures_of(connection, [row["id"]]) if row["state"] == JobState.SUCCEEDED else {}
    return to_job(row, found.get(row["id"], ()), await standing(connection, row))
