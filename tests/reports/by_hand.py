"""What reports are to tell, reckoned without any database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from itertools import groupby
from math import ceil
from typing import Any

from jobstore.reports.model import CostRow, LatencyRow, ReportQuery
from tests.reports.ledger import Attempt


def asked(**changes: Any) -> ReportQuery:
    """A query for the year 2026 with these changes."""
    fields: dict[str, Any] = {"first": date(2026, 1, 1), "last": date(2026, 12, 31)} | changes
    return ReportQuery(**fields)


def summed(attempts: Sequence[Attempt], values: tuple[str | None, ...] = ()) -> CostRow:
    """The row of these attempts, which have one currency."""
    return CostRow(
        values=values,
        currency=attempts[0].currency,
        jobs=sum(attempt.outcome == "succeeded" for attempt in attempts),
        attempts=len(attempts),
        pictures=sum(attempt.pictures for attempt in attempts),
        gpu_seconds=sum((attempt.gpu_seconds for attempt in attempts), Decimal(0)),
        charged=sum((attempt.charged for attempt in attempts), Decimal(0)),
        saved=sum((attempt.saved for attempt in attempts), Decimal(0)),
    )


def by_hand(attempts: Sequence[Attempt], query: ReportQuery) -> dict[tuple[Any, ...], CostRow]:
    """The rows of a report by day, model and experiment."""

    def place(attempt: Attempt) -> tuple[str, str, str, str]:
        return (
            attempt.day(query.zone),
            attempt.model,
            dict(attempt.dimensions).get("experiment", ""),
            attempt.currency,
        )

    wanted = [one for one in attempts if query.first.isoformat() <= one.day(query.zone) <= query.last.isoformat()]
    groups = groupby(sorted(wanted, key=place), key=place)
    return {
        (*values, currency): summed(list(members), (*values[:2], values[2] or None))
        for (*values, currency), members in groups
    }


def times_by_hand(attempts: Sequence[Attempt], query: ReportQuery) -> dict[tuple[str | None, str], LatencyRow]:
    """The rows of a report of times by experiment and day."""
    took: dict[tuple[str | None, str], list[float]] = {}
    for one in attempts:
        if one.wanted_at and query.first.isoformat() <= one.day(query.zone) <= query.last.isoformat():
            place = (dict(one.dimensions).get("experiment"), one.day(query.zone))
            took.setdefault(place, []).append((one.at - one.wanted_at).total_seconds())
    return {place: _ranked(place, sorted(times)) for place, times in took.items()}


def _ranked(values: tuple[str | None, ...], times: Sequence[float]) -> LatencyRow:
    """By nearest rank."""
    n = len(times)
    return LatencyRow(values=values, jobs=n, p50_s=times[ceil(n * 0.5) - 1], p90_s=times[ceil(n * 0.9) - 1])
