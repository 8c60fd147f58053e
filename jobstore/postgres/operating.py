"""What operators look at: attempts, workers, and how everything stands."""

from __future__ import annotations

from uuid import UUID

from jobstore.audit import Actor, AuditNote
from jobstore.errors import JobNotFoundError, WorkerNotFoundError
from jobstore.job import JobState
from jobstore.operating.attempting import attempts_of
from jobstore.operating.figures import LETTERS_COUNTED, Figures, figures_of, window_of
from jobstore.operating.jobs import Attempt
from jobstore.operating.workers import WorkerStatus, to_status
from jobstore.postgres import reads
from jobstore.postgres.columns import Connection, every, one, sole
from jobstore.postgres.keys import write_note

_HOSTS = "SELECT id, host, device FROM worker WHERE id = ANY(%(ids)s)"
_STATUSES = """
SELECT worker.*, clock_timestamp() AS now, (
    SELECT count(*) FROM job WHERE job.worker_id = worker.id AND lease_token IS NOT NULL
) AS held
FROM worker WHERE left_at IS NULL AND (%(id)s::uuid IS NULL OR id = %(id)s) ORDER BY started_at, id LIMIT 1000
"""
_DRAIN = """
UPDATE worker SET drain_asked_at = coalesce(drain_asked_at, clock_timestamp())
WHERE id = %(id)s AND left_at IS NULL RETURNING host
"""
_RESUME = "UPDATE worker SET drain_asked_at = NULL WHERE id = %(id)s AND left_at IS NULL RETURNING host"
_ENDED = """
SELECT date_trunc('minute', finished_at, 'UTC') AS at, state, cache, count(*) AS count
FROM any_job WHERE finished_at >= %(hour)s GROUP BY 1, 2, 3
"""
_LETTERS = f"""
SELECT count(*) AS count, max(finished_at) AS newest_at FROM (
    SELECT finished_at FROM any_job
    WHERE state IN ('failed', 'dead') AND state = %(state)s AND finished_at >= %(letters)s
    ORDER BY finished_at DESC LIMIT {LETTERS_COUNTED}
) AS newest
"""
_SPENT = """
SELECT currency, sum(charged) AS charged, sum(gpu_seconds) AS gpu_seconds FROM usage WHERE at >= %(day)s
GROUP BY currency
"""


async def attempts(connection: Connection, job_id: UUID) -> tuple[Attempt, ...]:
    """A job's attempts in order."""
    job = await one(connection, "SELECT * FROM any_job WHERE id = %(id)s", {"id": job_id})
    if job is None:
        raise JobNotFoundError(f"no job {job_id}")
    usage = await reads.usage(connection, job_id)
    ids = {worker_id for worker_id in (job["worker_id"], *(row.worker_id for row in usage)) if worker_id is not None}
    hosts = {row["id"]: row for row in await every(connection, _HOSTS, {"ids": list(ids)})}
    return attempts_of(job, usage, await reads.events(connection, job_id, 0), hosts)


async def statuses(connection: Connection) -> tuple[WorkerStatus, ...]:
    """The workers that have not left, oldest first."""
    return tuple(to_status(row, row["now"]) for row in await every(connection, _STATUSES, {"id": None}))


async def status(connection: Connection, worker_id: UUID) -> WorkerStatus:
    """One of them."""
    row = await one(connection, _STATUSES, {"id": worker_id})
    if row is None:
        raise WorkerNotFoundError(f"no worker {worker_id}")
    return to_status(row, row["now"])


async def drain(connection: Connection, worker_id: UUID, by: Actor, *, asked: bool) -> WorkerStatus:
    """Ask a worker to drain, or to go on, and write that down."""
    row = await one(connection, _DRAIN if asked else _RESUME, {"id": worker_id})
    if row is None:
        raise WorkerNotFoundError(f"no worker {worker_id}")
    action = "worker.drained" if asked else "worker.resumed"
    await write_note(connection, AuditNote(by=by, action=action, target=str(worker_id), details={"host": row["host"]}))
    return await status(connection, worker_id)


async def figures(connection: Connection, zone: str) -> Figures:
    """How the last hour, day and today stand."""
    at = (await sole(connection, "SELECT clock_timestamp() AS at", {}))["at"]
    window = window_of(at, zone)
    letters = {
        state: await sole(connection, _LETTERS, {"state": state, "letters": window.letters})
        for state in (JobState.FAILED, JobState.DEAD)
    }
    ended = await every(connection, _ENDED, {"hour": window.hour})
    return figures_of(window, ended, letters, await every(connection, _SPENT, {"day": window.day}))
