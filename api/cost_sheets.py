"""Reports as CSV, for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from api.views import plain_amount
from jobstore.reports.model import CostReport, CostRow, LatencyReport

REST = "(rest)"
"""Stands where the values of the first group stand, in the line that sums up what there was no room for."""
_COSTS = ("currency", "jobs", "attempts", "pictures", "gpu_seconds", "charged", "saved")
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")


class _Valued(Protocol):
    @property
    def values(self) -> tuple[str | None, ...]: ...


def costs_csv(by: Sequence[str], report: CostReport) -> str:
    """A header, the rows, and a line for the rest of each currency."""
    lines = [[*_values(by, row, report.names), *_sums(row)] for row in report.rows]
    lines += [[*_rest(by), *_sums(row)] for row in report.rest]
    return sheet([*_header(by), *_COSTS], lines)


def latency_csv(by: Sequence[str], report: LatencyReport) -> str:
    """A header, the rows, and a line for the jobs of the rest, without times."""
    lines = [
        [*_values(by, row, report.names), str(row.jobs), f"{row.p50_s:.6f}", f"{row.p90_s:.6f}"] for row in report.rows
    ]
    if report.rest:
        lines.append([*_rest(by), str(report.rest), "", ""])
    return sheet([*_header(by), "jobs", "p50_s", "p90_s"], lines)


def cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula: clients choose the values of dimensions."""
    return f"'{text}" if text.startswith(_FORMULAS) else text


def _header(by: Sequence[str]) -> list[str]:
    return [name for group in by for name in ((group, "key_name") if group == "key" else (group,))]


def _values(by: Sequence[str], row: _Valued, names: Mapping[str, str]) -> list[str]:
    cells = []
    for group, value in zip(by, row.values, strict=True):
        cells.append(cell(value or ""))
        if group == "key":
            cells.append(cell(names.get(value or "", "")))
    return cells


def _rest(by: Sequence[str]) -> list[str]:
    return [REST, *([""] * (len(_header(by)) - 1))] if by else []


def _sums(row: CostRow) -> list[str]:
    amounts = (row.gpu_seconds, row.charged, row.saved)
    return [row.currency, str(row.jobs), str(row.attempts), str(row.pictures), *map(plain_amount, amounts)]


def sheet(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(lines)
    return text.getvalue()
