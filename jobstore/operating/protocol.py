"""What every job store does for operators. ``tests/contract`` puts it to each."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from jobstore.audit import Actor
from jobstore.operating.figures import Figures
from jobstore.operating.jobs import (
    MOST_COUNTED,
    Attempt,
    Counted,
    JobFilter,
    JobPage,
    Reached,
)
from jobstore.operating.workers import WorkerStatus


class OperatorStore(Protocol):
    """Searches look at a bounded number of jobs, and say where they stopped before the end."""

    async def list_jobs(self, where: JobFilter) -> JobPage:
        """Jobs newest first. Raises ValueError on a cursor that no page gave."""

    async def count_jobs(self, where: JobFilter, most: int = MOST_COUNTED) -> Counted:
        """How many jobs the filter names, up to ``most``; its ``limit`` and ``cursor`` count for nothing."""

    async def cancel_jobs(self, where: JobFilter, limit: int = 1000, by: Actor | None = None) -> Reached:
        """Cancel up to ``limit`` unfinished jobs that the filter names, newest first, as ``cancel`` does each.

        Those that are not as the filter says any more when their turn comes, and those that are asked to stop already,
        are left alone. In transactions of a few jobs; with ``by``, each of them writes its audit entry
        (``jobs.canceled``). Raises ValueError on a cursor that no page gave, StoreBusyError where
        the search gets no turn.
        """

    async def count_letters(self, where: JobFilter, most: int = MOST_COUNTED) -> Counted:
        """How many failed or dead jobs the filter names, up to ``most``."""

    async def redrive(self, where: JobFilter, limit: int = 1000, by: Actor | None = None) -> Reached:
        """Retry up to ``limit`` failed or dead jobs that the filter names, those that ended first before others.

        Those for which a quota has no room are left, and so are those that are not as the filter says any more when
        their turn comes. In transactions of a few jobs; with ``by``, each of them writes its audit entry
        (``jobs.redriven``). Raises ValueError on a cursor that no redrive gave.
        """

    async def attempts(self, job_id: UUID) -> tuple[Attempt, ...]:
        """The job's attempts in order, the one that runs last. Raises JobNotFoundError."""

    async def worker_statuses(self) -> tuple[WorkerStatus, ...]:
        """All workers that are not forgotten yet, silent ones too, oldest first."""

    async def worker_status(self, worker_id: UUID) -> WorkerStatus:
        """The worker. Raises WorkerNotFoundError."""

    async def drain_worker(self, worker_id: UUID, by: Actor) -> WorkerStatus:
        """Ask the worker to claim no more; it hears it by its next beat. Asking again changes nothing.

        Audited in the same transaction (``worker.drained``). Raises WorkerNotFoundError.
        """

    async def resume_worker(self, worker_id: UUID, by: Actor) -> WorkerStatus:
        """Let a draining worker claim again (``worker.resumed``). Raises WorkerNotFoundError."""

    async def figures(self, zone: str) -> Figures:
        """How the last hour, day and today in that time zone stand. Raises ZoneInfoNotFoundError.

        Reads recent windows by their indexes alone, in a turn among the slow reads; ask now and then, not for each
        request. Raises StoreBusyError.
        """
