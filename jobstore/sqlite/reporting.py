"""The part of the store in SQLite that tells of costs and times."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TypeVar

from jobstore.reports.model import CostReport, LatencyReport, ReportQuery
from jobstore.sqlite import reports
from jobstore.sqlite.database import Database

T = TypeVar("T")


class SqliteReports(ABC):
    """``jobstore.reports.protocol`` says what each method promises."""

    @abstractmethod
    async def on_database(self, work: Callable[[Database], Awaitable[T]], *, writes: bool = True) -> T:
        """The result of ``work`` in a transaction; ``writes`` says whether it changes anything."""

    async def roll_up(self, hours: int = 24) -> int:  # noqa: ARG002 - reports read the ledger itself
        return 0

    async def forget_sums(self) -> None:
        return None

    async def costs(self, query: ReportQuery) -> CostReport:
        return await self.on_database(lambda d: reports.costs(d, query), writes=False)

    async def latency(self, query: ReportQuery) -> LatencyReport:
        return await self.on_database(lambda d: reports.latency(d, query), writes=False)
