"""Metrics: what is used is exposed, and what is exposed is documented."""

from __future__ import annotations

import re

import pytest

from tests.dashboards.boards import ROOT, Target, boards, rules, targets
from tests.dashboards.exposed import exposed, names_in

ROW = re.compile(r"^\| `(safelight_\w+)` \| (counter|gauge|histogram) \|([^|]*)\| [^|]+ \| .+ \|$", re.M)


def test_every_metric_is_in_the_table() -> None:
    """With its type and its labels, once; and the table has no other."""
    rows = ROW.findall((ROOT / "docs/metrics.md").read_text())
    told = [(name, kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows]
    wanted = {(metric.name, metric.kind, metric.labels - {"dim_team"}) for metric in exposed()}
    assert set(told) == wanted
    assert len(told) == len(wanted)


@pytest.mark.parametrize("target", targets(), ids=lambda target: f"{target.board}: {target.panel}")
def test_what_a_panel_asks_for_is_exposed(target: Target) -> None:
    """By the names of its series."""
    assert names_in(target.query) <= {name for metric in exposed() for name in metric.series}


def test_what_rules_and_variables_ask_for_is_exposed() -> None:
    """By the names of its series."""
    queries = [rule["expr"] for rule in rules()]
    queries += [
        variable["query"]
        for board in boards().values()
        for variable in board["templating"]["list"]
        if variable["type"] == "query"
    ]
    used = {name for query in queries for name in names_in(query)}
    assert len(used) > 15
    assert used <= {name for metric in exposed() for name in metric.series}
