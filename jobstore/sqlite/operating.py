"""What operators look at: attempts, workers, and how everything stands."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

from jobstore.audit import Actor, AuditNote
from jobstore.errors import JobNotFoundError, WorkerNotFoundError
from jobstore.job import JobState
from jobstore.operating.attempting import attempts_of
from jobstore.operating.figures import LETTERS_COUNTED, Figures, figures_of, window_of
from jobstore.operating.jobs import Attempt
from jobstore.operating.workers import WorkerStatus, to_status
from jobstore.rules.rows import Row
from jobstore.sqlite import reads
from jobstore.sqlite.database import Database, now
from jobstore.sqlite.keys import write_note

_STATUSES = """
SELECT worker.*, (
    SELECT count(*) FROM job WHERE job.worker_id = worker.id AND lease_token IS NOT NULL
) AS jobs_held
FROM worker WHERE left_at IS NULL AND (:id IS NULL OR id = :id) ORDER BY started_at, id LIMIT 1000
"""
_DRAIN = """
UPDATE worker SET drain_asked_at = coalesce(drain_asked_at, :now) WHERE id = :id AND left_at IS NULL
"""
_RESUME = "UPDATE worker SET drain_asked_at = NULL WHERE id = :id AND left_at IS NULL"
_ENDED = """
SELECT finished_at / 60000000 * 60000000 AS at, state, cache, count(*) AS count
FROM job WHERE finished_at >= :hour GROUP BY 1, 2, 3
"""
_LETTERS = f"""
SELECT count(*) AS count, max(finished_at) AS finished_at FROM (
    SELECT finished_at FROM job WHERE state = :state AND finished_at >= :letters
    ORDER BY finished_at DESC LIMIT {LETTERS_COUNTED}
)
"""


async def attempts(database: Database, job_id: UUID) -> tuple[Attempt, ...]:
    """A job's attempts in order."""
    job = await database.one("SELECT * FROM job WHERE id = :id", {"id": job_id})
    if job is None:
        raise JobNotFoundError(f"no job {job_id}")
    usage = await reads.usage(database, job_id)
    ids = {worker_id for worker_id in (job["worker_id"], *(row.worker_id for row in usage)) if worker_id is not None}
    hosts = {worker_id: row for worker_id in ids if (row := await _host(database, worker_id)) is not None}
    return attempts_of(job, usage, await reads.events(database, job_id, 0), hosts)


async def _host(database: Database, worker_id: UUID) -> Row | None:
    return await database.one("SELECT id, host, device FROM worker WHERE id = :id", {"id": worker_id})


async def statuses(database: Database) -> tuple[WorkerStatus, ...]:
    """The workers that have not left, oldest first."""
    return tuple(_status(row) for row in await database.every(_STATUSES, {"id": None}))


async def status(database: Database, worker_id: UUID) -> WorkerStatus:
    """One of them."""
    row = await database.one(_STATUSES, {"id": worker_id})
    if row is None:
        raise WorkerNotFoundError(f"no worker {worker_id}")
    return _status(row)


def _status(row: Row) -> WorkerStatus:
    return to_status({**row, "held": row["jobs_held"]}, datetime.fromtimestamp(now() / 1e6, UTC))


async def drain(database: Database, worker_id: UUID, by: Actor, *, asked: bool) -> WorkerStatus:
    """Ask a worker to drain, or to go on, and write that down."""
    await database.execute(_DRAIN if asked else _RESUME, {"id": worker_id, "now": now()})
    found = await status(database, worker_id)
    action = "worker.drained" if asked else "worker.resumed"
    await write_note(database, AuditNote(by=by, action=action, target=str(worker_id), details={"host": found.host}))
    return found


async def figures(database: Database, zone: str) -> Figures:
    """How the last hour, day and today stand."""
    window = window_of(datetime.fromtimestamp(now() / 1e6, UTC), zone)
    letters = {state: await _letters(database, state, window.letters) for state in (JobState.FAILED, JobState.DEAD)}
    ended = await database.every(_ENDED, {"hour": window.hour})
    return figures_of(window, ended, letters, await _spent(database, window.day))


async def _letters(database: Database, state: JobState, since: datetime) -> Row:
    found = await database.one(_LETTERS, {"state": state, "letters": since}) or {"count": 0, "finished_at": None}
    return {"count": found["count"], "newest_at": found["finished_at"]}


async def _spent(database: Database, since: datetime) -> list[Row]:
    """Sums by currency; amounts are texts, so that no cent is rounded."""
    sums: dict[str, dict[str, Decimal]] = {}
    for row in await database.every(
        "SELECT currency, charged, gpu_seconds FROM usage WHERE at >= :day", {"day": since}
    ):
        known = sums.setdefault(row["currency"], {"charged": Decimal(0), "gpu_seconds": Decimal(0)})
        for name in known:
            known[name] += row[name]
    return [{"currency": currency, **amounts} for currency, amounts in sums.items()]
