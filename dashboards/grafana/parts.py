"""What the dashboards are made of: numbers above, graphs below, variables to choose by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_uppercase

from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement, StackingMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    Panel,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
    VariableSort,
)

PER_SECOND = "cps"
RATIO = "percentunit"
SECONDS = "s"
BYTES = "bytes"
COUNT = "short"

_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH = 24
_PANELS_A_ROW = {"number": 4, "graph": 2}


def number(
    title: str, about: str, unit: str, query: str, *, legend: str = "", warn: float | None = None, bad: float = 0
) -> stat.Panel:
    """One number as it is now; yellow from ``warn`` on, red from ``bad`` on, where they are given."""
    levels = [Threshold(value=None, color="green")]
    if warn is not None:
        levels += [Threshold(value=warn, color="yellow"), Threshold(value=bad, color="red")]
    steps = dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(levels)
    panel = stat.Panel().title(title).description(about).unit(unit).datasource(_SOURCE).thresholds(steps)
    return panel.with_target(_query(query, legend, "A", instant=True)).span(_span("number")).height(4).no_value("none")


def graph(
    title: str, about: str, unit: str, queries: Mapping[str, str], *, stacked: bool = False, most: float | None = None
) -> timeseries.Panel:
    """Lines over time: ``queries`` by their legend."""
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    panel = (
        timeseries.Panel().title(title).description(about).unit(unit).datasource(_SOURCE)
        .min(0).legend(legend.show_legend(True)).span(_span("graph")).height(8).fill_opacity(30 if stacked else 5)
    )  # fmt: skip
    if most is not None:
        panel.max(most)
    if stacked:
        panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    for letter, (label, query) in zip(ascii_uppercase, queries.items(), strict=False):
        panel.with_target(_query(query, label, letter))
    return panel


def bars(title: str, about: str, unit: str, query: str, legend: str, *, warn: float, bad: float) -> bargauge.Panel:
    """A bar for each thing, as it is now."""
    levels = [
        Threshold(value=None, color="green"),
        Threshold(value=warn, color="yellow"),
        Threshold(value=bad, color="red"),
    ]
    steps = dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(levels)
    panel = bargauge.Panel().title(title).description(about).unit(unit).datasource(_SOURCE).thresholds(steps)
    panel.min(0).max(1).span(_span("graph")).height(8).no_value("none")
    return panel.with_target(_query(query, legend, "A", instant=True))


def board(uid: str, title: str, about: str, variables: Mapping[str, str], panels: Sequence[Builder[Panel]]) -> str:
    """The JSON of a dashboard. ``variables`` are by name the query of PromQL that tells their values."""
    built = (
        dashboard.Dashboard(title).uid(uid).description(about).tags(["safelight"]).editable()
        .time("now-6h", "now").refresh("30s").timezone("browser").tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )  # fmt: skip
    for name, query in variables.items():
        built.with_variable(_variable(name, query))
    for panel in panels:
        built.with_panel(panel)
    made = built.build()
    for place, placed in enumerate(made.panels or (), start=1):
        placed.id_val = place
    return JSONEncoder(sort_keys=True, indent=1).encode(made) + "\n"


def _variable(name: str, query: str) -> dashboard.QueryVariable:
    variable = dashboard.QueryVariable(name).label(name.capitalize()).datasource(_SOURCE).query(query)
    variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)
    return variable.multi(True).include_all(True).all_value(".*")


def _query(query: str, legend: str, letter: str, *, instant: bool = False) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query).datasource(_SOURCE).legend_format(legend).ref_id(letter)
    return target.instant() if instant else target.range()


def _span(kind: str) -> int:
    return _WIDTH // _PANELS_A_ROW[kind]
