"""The part of the store on PostgreSQL that is for operators."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import TypeVar
from uuid import UUID

from jobstore.audit import Actor
from jobstore.canaries import CanaryShare, ModelFigures
from jobstore.operating.figures import Figures
from jobstore.operating.jobs import MOST_COUNTED, Attempt, Counted, JobFilter, JobPage
from jobstore.operating.workers import WorkerStatus
from jobstore.postgres import canaries, finding, listing, operating
from jobstore.postgres.columns import Connection
from jobstore.postgres.rows import PostgresRows
from jobstore.rules.many import ActingStore, Found

T = TypeVar("T")

_SEARCH_S = 10.0
_CANARIES = "canaries"
_FIGURES = "figures"  # whoever asks for them: in each of the world's time zones, it may be


class PostgresOperators(ActingStore[PostgresRows]):
    """``jobstore.operating.protocol`` says what each method promises."""

    @abstractmethod
    async def on_connection(self, work: Callable[[Connection], Awaitable[T]], *, together: bool = False) -> T:
        """The result of ``work``; ``together`` makes its statements one transaction."""

    @abstractmethod
    async def slowly(self, work: Callable[[Connection], Awaitable[T]], *, owner: Hashable, limit_s: float) -> T:
        """The result of a read that may take long. Raises StoreBusyError where it gets no turn, or takes longer."""

    async def list_jobs(self, where: JobFilter) -> JobPage:
        return await self._search(lambda c: listing.list_jobs(c, where), where)

    async def count_jobs(self, where: JobFilter, most: int = MOST_COUNTED) -> Counted:
        return await self._search(lambda c: listing.count_jobs(c, where, most), where)

    async def count_letters(self, where: JobFilter, most: int = MOST_COUNTED) -> Counted:
        return await self._search(lambda c: listing.count_letters(c, where, most), where)

    async def find_unfinished(self, where: JobFilter, limit: int) -> Found:
        return await self._search(lambda c: finding.find_ids(c, where, limit), where)

    async def find_letters(self, where: JobFilter, limit: int) -> Found:
        return await self._search(lambda c: finding.find_letters(c, where, limit), where)

    async def attempts(self, job_id: UUID) -> tuple[Attempt, ...]:
        return await self.on_connection(lambda c: operating.attempts(c, job_id))

    async def worker_statuses(self) -> tuple[WorkerStatus, ...]:
        return await self.on_connection(operating.statuses)

    async def worker_status(self, worker_id: UUID) -> WorkerStatus:
        return await self.on_connection(lambda c: operating.status(c, worker_id))

    async def drain_worker(self, worker_id: UUID, by: Actor) -> WorkerStatus:
        return await self.on_connection(lambda c: operating.drain(c, worker_id, by, asked=True), together=True)

    async def resume_worker(self, worker_id: UUID, by: Actor) -> WorkerStatus:
        return await self.on_connection(lambda c: operating.drain(c, worker_id, by, asked=False), together=True)

    async def figures(self, zone: str) -> Figures:
        return await self.slowly(lambda c: operating.figures(c, zone), owner=_FIGURES, limit_s=_SEARCH_S)

    async def canary_shares(self) -> tuple[CanaryShare, ...]:
        return await self.on_connection(canaries.shares)

    async def share_canary(self, model: str, share: float, action: str, by: Actor) -> CanaryShare:
        return await self.on_connection(lambda c: canaries.share(c, model, share, action, by), together=True)

    async def model_figures(self, models: Sequence[str], window_s: float, currency: str) -> tuple[ModelFigures, ...]:
        def work(connection: Connection) -> Awaitable[tuple[ModelFigures, ...]]:
            return canaries.figures(connection, models, window_s, currency)

        return await self.slowly(work, owner=_CANARIES, limit_s=_SEARCH_S)

    async def _search(self, work: Callable[[Connection], Awaitable[T]], where: JobFilter) -> T:
        return await self.slowly(work, owner=where.key_id, limit_s=_SEARCH_S)
