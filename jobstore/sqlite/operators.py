"""The part of the store on SQLite that is for operators."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from uuid import UUID

from jobstore.audit import Actor
from jobstore.canaries import CanaryShare, ModelFigures
from jobstore.operating.figures import Figures
from jobstore.operating.jobs import MOST_COUNTED, Attempt, Counted, JobFilter, JobPage
from jobstore.operating.workers import WorkerStatus
from jobstore.rules.many import ActingStore, Found
from jobstore.sqlite import canaries, finding, listing, operating
from jobstore.sqlite.database import Database
from jobstore.sqlite.rows import SqliteRows

T = TypeVar("T")


class SqliteOperators(ActingStore[SqliteRows]):
    """``jobstore.operating.protocol`` says what each method promises."""

    @abstractmethod
    async def on_database(self, work: Callable[[Database], Awaitable[T]], *, writes: bool = True) -> T:
        """The result of ``work`` in a transaction of its own."""

    async def list_jobs(self, where: JobFilter) -> JobPage:
        return await self.on_database(lambda d: listing.list_jobs(d, where), writes=False)

    async def count_jobs(self, where: JobFilter, most: int = MOST_COUNTED) -> Counted:
        return await self.on_database(lambda d: listing.count_jobs(d, where, most), writes=False)

    async def count_letters(self, where: JobFilter, most: int = MOST_COUNTED) -> Counted:
        return await self.on_database(lambda d: listing.count_letters(d, where, most), writes=False)

    async def find_unfinished(self, where: JobFilter, limit: int) -> Found:
        return await self.on_database(lambda d: finding.find_ids(d, where, limit), writes=False)

    async def find_letters(self, where: JobFilter, limit: int) -> Found:
        return await self.on_database(lambda d: finding.find_letters(d, where, limit), writes=False)

    async def attempts(self, job_id: UUID) -> tuple[Attempt, ...]:
        return await self.on_database(lambda d: operating.attempts(d, job_id), writes=False)

    async def worker_statuses(self) -> tuple[WorkerStatus, ...]:
        return await self.on_database(operating.statuses, writes=False)

    async def worker_status(self, worker_id: UUID) -> WorkerStatus:
        return await self.on_database(lambda d: operating.status(d, worker_id), writes=False)

    async def drain_worker(self, worker_id: UUID, by: Actor) -> WorkerStatus:
        return await self.on_database(lambda d: operating.drain(d, worker_id, by, asked=True))

    async def resume_worker(self, worker_id: UUID, by: Actor) -> WorkerStatus:
        return await self.on_database(lambda d: operating.drain(d, worker_id, by, asked=False))

    async def figures(self, zone: str) -> Figures:
        return await self.on_database(lambda d: operating.figures(d, zone), writes=False)

    async def canary_shares(self) -> tuple[CanaryShare, ...]:
        return await self.on_database(canaries.shares, writes=False)

    async def share_canary(self, model: str, share: float, action: str, by: Actor) -> CanaryShare:
        return await self.on_database(lambda d: canaries.share(d, model, share, action, by))

    async def model_figures(self, models: Sequence[str], window_s: float, currency: str) -> tuple[ModelFigures, ...]:
        return await self.on_database(lambda d: canaries.figures(d, models, window_s, currency), writes=False)
