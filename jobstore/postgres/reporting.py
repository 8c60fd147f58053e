"""The part of the store on PostgreSQL that tells of costs and times."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from psycopg.errors import LockNotAvailable

from jobstore.postgres import reports, rollup
from jobstore.postgres.columns import Connection
from jobstore.reports.model import CostReport, LatencyReport, ReportQuery

T = TypeVar("T")

_REPORT_S = 30.0


class PostgresReports(ABC):
    """``jobstore.reports.protocol`` says what each method promises."""

    @abstractmethod
    async def slowly(self, work: Callable[[Connection], Awaitable[T]], *, owner: Hashable, limit_s: float) -> T:
        """The result of a read that may take long. Raises StoreBusyError where it gets no turn, or takes longer."""

    @abstractmethod
    async def on_connection(self, work: Callable[[Connection], Awaitable[T]], *, together: bool = False) -> T:
        """The result of ``work``; ``together``: in one transaction."""

    async def roll_up(self, hours: int = 24) -> int:
        try:
            return await self.on_connection(lambda c: rollup.roll_up(c, hours), together=True)
        except LockNotAvailable:
            return 0  # the next time, then

    async def forget_sums(self) -> None:
        await self.on_connection(rollup.forget_sums)

    async def costs(self, query: ReportQuery) -> CostReport:
        return await self._report(lambda c: reports.costs(c, query), query)

    async def latency(self, query: ReportQuery) -> LatencyReport:
        return await self._report(lambda c: reports.latency(c, query), query)

    async def _report(self, work: Callable[[Connection], Awaitable[T]], query: ReportQuery) -> T:
        return await self.slowly(work, owner=query.where.key_id, limit_s=_REPORT_S)
