"""Reports of what a store's queries bring."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from jobstore.reports.model import CostReport, CostRow, LatencyReport, LatencyRow, ReportQuery
from jobstore.rules.rows import Row, trimmed

Values = tuple[str | None, ...]


def columns_of(by: Sequence[str]) -> list[str]:
    """The names that a query gives the values of its groups."""
    return [f"g{index}" for index in range(len(by))]


def cost_report(query: ReportQuery, found: Iterable[Row], names: Mapping[str, str]) -> CostReport:
    """The report of rows that are marked as part of the rest or not."""
    rows: list[CostRow] = []
    rest: list[CostRow] = []
    for row in found:
        (rest if row["is_rest"] else rows).append(_cost_row(query, row))
    order = _order(query.by, lambda row: (-row.charged, -row.gpu_seconds, -row.attempts))
    rows.sort(key=lambda row: (*order(row), row.currency))
    rest.sort(key=lambda row: row.currency)
    return CostReport(rows=tuple(rows), rest=tuple(rest), totals=totals_of([*rows, *rest]), names=dict(names))


def totals_of(rows: Sequence[CostRow]) -> tuple[CostRow, ...]:
    """The sums of rows: one row a currency, without values."""
    return tuple(
        _sum(currency, [row for row in rows if row.currency == currency])
        for currency in sorted({row.currency for row in rows})
    )


def _sum(currency: str, rows: Sequence[CostRow]) -> CostRow:
    return CostRow(
        values=(),
        currency=currency,
        jobs=sum(row.jobs for row in rows),
        attempts=sum(row.attempts for row in rows),
        pictures=sum(row.pictures for row in rows),
        gpu_seconds=sum((row.gpu_seconds for row in rows), Decimal(0)),
        charged=sum((row.charged for row in rows), Decimal(0)),
        saved=sum((row.saved for row in rows), Decimal(0)),
    )


def latency_report(
    query: ReportQuery, found: Iterable[Row], total: Row | None, rest: int, names: Mapping[str, str]
) -> LatencyReport:
    """The report of rows of times, and of the row over all."""
    rows = [_latency_row(_values(query.by, row), row) for row in found]
    rows.sort(key=_order(query.by, lambda row: (-row.jobs,)))
    whole = None if total is None or not total["jobs"] else _latency_row((), total)
    return LatencyReport(rows=tuple(rows), rest=rest, total=whole, names=dict(names))


def keys_in(query: ReportQuery, rows: Iterable[Row]) -> list[str]:
    """The ids of keys among the values."""
    if "key" not in query.by:
        return []
    column = columns_of(query.by)[query.by.index("key")]
    return sorted({row[column] for row in rows if row[column] is not None})


def _values(by: Sequence[str], row: Row) -> Values:
    return tuple(row[name] for name in columns_of(by))


def _cost_row(query: ReportQuery, row: Row) -> CostRow:
    return CostRow(
        values=() if row["is_rest"] else _values(query.by, row),
        currency=row["currency"],
        jobs=int(row["jobs"]),
        attempts=int(row["attempts"]),
        pictures=int(row["pictures"]),
        gpu_seconds=trimmed(row["gpu_seconds"]),
        charged=trimmed(row["charged"]),
        saved=trimmed(row["saved"]),
    )


def _latency_row(values: Values, row: Row) -> LatencyRow:
    return LatencyRow(values=values, jobs=row["jobs"], p50_s=row["p50_s"], p90_s=row["p90_s"])


def _order(by: Sequence[str], greatest: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], tuple[Any, ...]]:
    """By day where days are told apart, then the greatest first, then by the values."""
    place = by.index("day") if "day" in by else None

    def key(row: Any) -> tuple[Any, ...]:
        day = "" if place is None else row.values[place] or ""
        return (day, *greatest(row), tuple((value is None, value or "") for value in row.values))

    return key
