"""The part of the store on PostgreSQL that tells of costs and times."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TypeVar

from jobstore.postgres import reports
from jobstore.postgres.columns import Connection
from jobstore.reports.model import CostReport, LatencyReport, ReportQuery

T = TypeVar("T")


class PostgresReports(ABC):
    """``jobstore.reports.protocol`` says what each method promises."""

    @abstractmethod
    async def on_connection(self, work: Callable[[Connection], Awaitable[T]], *, together: bool = False) -> T:
        """The result of ``work``; ``together`` makes its statements one transaction."""

    async def costs(self, query: ReportQuery) -> CostReport:
        return await self.on_connection(lambda c: reports.costs(c, query))

    async def latency(self, query: ReportQuery) -> LatencyReport:
        return await self.on_connection(lambda c: reports.latency(c, query))
