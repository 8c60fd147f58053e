"""What the page of costs shows of a report: parts a currency, with bars by day, and times by group."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

from msgspec import Struct

from api.admin.charts import chart
from jobstore.reports.days import days_between
from jobstore.reports.model import CostReport, CostRow, LatencyReport, ReportQuery

LARGEST = 8
"""Groups with a colour of their own; the others are summed up as the rest."""
REST = "rest"
_COLOURS = tuple(f"chart-{number}" for number in range(1, LARGEST + 1))
_MOST_BARS = 20
_UNITS = {"gpu_seconds": "s", "jobs": "jobs", "pictures": "pictures"}
"""Of what is no money."""

Values = tuple[str | None, ...]


class DayChart(Struct, frozen=True, kw_only=True):
    """Bars by day, and the same as lines of a table: of the days on which there was something."""

    drawn: dict[str, Any]
    names: tuple[str, ...]
    lines: tuple[tuple[str, tuple[Decimal, ...]], ...]

    @property
    def heads(self) -> list[str | tuple[str, str]]:
        """The table's."""
        return ["Day", *((name, "num") for name in self.names)]


class CurrencyPart(Struct, frozen=True, kw_only=True):
    """Everything of one currency: rows, what there was no room for, the total, and the chart."""

    currency: str
    rows: tuple[CostRow, ...]
    rest: CostRow | None
    total: CostRow
    chart: DayChart


def currency_parts(
    report: CostReport, daily: CostReport, grouped: CostReport, query: ReportQuery, groups: Sequence[str], show: str
) -> list[CurrencyPart]:
    """A part for each currency of ``report``. ``daily`` tells days apart, ``grouped`` the groups within them, too."""
    rest = {row.currency: row for row in report.rest}
    return [
        CurrencyPart(
            currency=total.currency,
            rows=tuple(row for row in report.rows if row.currency == total.currency),
            rest=rest.get(total.currency),
            total=total,
            chart=_day_chart(
                _of(daily, total.currency), _of(grouped, total.currency), query,
                Labels(groups, grouped.names), show, total.currency,
            ),
        )
        for total in report.totals
    ]  # fmt: skip


class Labels:
    """Names for people of what rows are told apart by."""

    def __init__(self, groups: Sequence[str], names: Mapping[str, str]) -> None:
        """``names`` are those of keys."""
        self._groups, self._names = groups, names

    def of(self, values: Values) -> str:
        """All of a row in one line."""
        return " · ".join(map(self.one, self._groups, values)) or "all"

    def one(self, group: str, value: str | None) -> str:
        """One value."""
        if value is None:
            return f"no {group.removeprefix('dim:')}"
        return self._names.get(value, value) if group == "key" else value


def _of(report: CostReport, currency: str) -> list[CostRow]:
    return [row for row in report.rows if row.currency == currency]


def _day_chart(
    daily: Sequence[CostRow], grouped: Sequence[CostRow], query: ReportQuery, labels: Labels, show: str, currency: str
) -> DayChart:
    days = [str(day) for day in days_between(query.first, query.last)]
    amounts: dict[Values, dict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for row in grouped:
        amounts[row.values[1:]][str(row.values[0])] += Decimal(getattr(row, show))
    largest = sorted(amounts, key=lambda values: -sum(amounts[values].values()))[:LARGEST]
    series = [(labels.of(values), [amounts[values][day] for day in days]) for values in largest]
    whole = {str(row.values[0]): Decimal(getattr(row, show)) for row in daily}
    left = [whole.get(day, Decimal(0)) - sum(line[place] for _, line in series) for place, day in enumerate(days)]
    colours = [*_COLOURS[: len(series)]]
    if any(left):
        series.append((REST, left))
        colours.append("strong-line")
    names = _distinct([label for label, _ in series])
    drawn = chart(
        "bar", days, {one: [float(amount) for amount in line] for one, (_, line) in zip(names, series, strict=True)},
        unit=_UNITS.get(show, currency), stacked=True, colours=colours,
    )  # fmt: skip
    lines = [(day, tuple(line[place] for _, line in series)) for place, day in enumerate(days) if whole.get(day)]
    return DayChart(drawn=drawn, names=names, lines=tuple(lines))


def _distinct(labels: Sequence[str]) -> tuple[str, ...]:
    """Labels of which no two are alike: two keys may have one name."""
    seen: Counter[str] = Counter()
    found = []
    for label in labels:
        seen[label] += 1
        found.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return tuple(found)


def times_chart(report: LatencyReport, query: ReportQuery) -> dict[str, Any]:
    """Half and nine in ten of the jobs of each group: a line by day, else bars of the groups with most jobs."""
    by_days = query.by == ("day",)
    rows = report.rows if by_days else report.rows[:_MOST_BARS]
    labels = Labels(query.by, report.names)
    series = {"p50": [row.p50_s for row in rows], "p90": [row.p90_s for row in rows]}
    kind: Literal["line", "bar"] = "line" if by_days and len(rows) > 1 else "bar"
    return chart(kind, [labels.of(row.values) for row in rows], series, unit="s", colours=("chart-1", "chart-2"))
