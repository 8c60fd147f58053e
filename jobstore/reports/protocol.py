"""What every job store tells of costs and times. ``tests/contract/test_reports.py`` puts it to each."""

from __future__ import annotations

from typing import Protocol

from jobstore.reports.model import CostReport, LatencyReport, ReportQuery


class ReportStore(Protocol):
    """Sums over the usage ledger, exact at every moment: what is settled is in the next report."""

    async def costs(self, query: ReportQuery) -> CostReport:
        """What attempts cost that were settled on the query's days. Currencies are never added up.

        Raises ValueError, which begins with the field's name, where the query can't be answered.
        """

    async def latency(self, query: ReportQuery) -> LatencyReport:
        """How long jobs took that got their pictures on the query's days, the time that they were scheduled for left
        out; hits, which take none, are not among them. Raises ValueError as ``costs`` does."""

    async def roll_up(self, hours: int = 24) -> int:
        """Sum up so many hours of the ledger at most that are over, the oldest first; how many, 0 where none is left.

        Reports are the same with it and without it, only sooner there. Any number of processes may do so at once. A
        store that reads the ledger itself has nothing to do.
        """

    async def forget_sums(self) -> None:
        """Let reports read the ledger alone, until it is summed up anew."""
