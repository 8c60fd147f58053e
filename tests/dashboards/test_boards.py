"""The dashboards' JSON: what the code writes, and what Grafana's own types take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.grafana.__main__ import BOARDS, write
from tests.dashboards.boards import GRAFANA, boards

MOST_PANELS = 12
UNITS = {unit for unit in vars(units).values() if isinstance(unit, str)}
NAMES = sorted(boards())


def test_the_files_are_what_the_code_writes(tmp_path: Path) -> None:
    """``python -m dashboards.grafana`` changes nothing."""
    write(tmp_path)
    assert sorted(BOARDS) == NAMES
    for name in NAMES:
        assert (tmp_path / f"{name}.json").read_text() == (GRAFANA / f"dashboards/{name}.json").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_grafanas_types_take_the_json(name: str) -> None:
    """Read and written again it is the same: no field is unknown to them."""
    board = boards()[name]
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(board)))
    assert again == board


@pytest.mark.parametrize("name", NAMES)
def test_each_panel_says_what_it_shows(name: str) -> None:
    """In words, with a unit that Grafana knows, and of the datasource that is chosen above."""
    board = boards()[name]
    panels: list[dict[str, Any]] = board["panels"]
    assert 0 < len(panels) <= MOST_PANELS
    assert len({panel["title"] for panel in panels}) == len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert len(panel["description"]) > 5, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_panels_fill_the_page() -> None:
    """None lies upon another, none sticks out."""
    for board in boards().values():
        taken = [
            (grid["x"] + x, grid["y"] + y)
            for grid in (panel["gridPos"] for panel in board["panels"])
            for x in range(grid["w"])
            for y in range(grid["h"])
        ]
        assert len(set(taken)) == len(taken)
        assert max(x for x, _ in taken) < 24


def test_dashboards_keep_their_addresses() -> None:
    """A uid is in bookmarks and in links."""
    assert {board["uid"] for board in boards().values()} == {
        "safelight-queue", "safelight-workers", "safelight-cost", "safelight-canary", "safelight-api",
    }  # fmt: skip


def test_variables_are_used() -> None:
    """Each of them, and none that isn't there."""
    for name, board in boards().items():
        text = json.dumps(board["panels"])
        variables = {variable["name"] for variable in board["templating"]["list"]}
        for variable in variables:
            assert f"${variable}" in text or f"${{{variable}}}" in text, (name, variable)
    named = {variable["name"] for board in boards().values() for variable in board["templating"]["list"]}
    assert named == {"datasource", "lane", "model", "worker", "route", "canary", "stable"}


def test_what_is_provisioned_is_yaml() -> None:
    """With the fields that Grafana asks for."""
    [source] = yaml.safe_load((GRAFANA / "provisioning/datasources/safelight.yml").read_text())["datasources"]
    [provider] = yaml.safe_load((GRAFANA / "provisioning/dashboards/safelight.yml").read_text())["providers"]
    assert (source["type"], provider["type"]) == ("prometheus", "file")
    assert provider["options"]["path"].startswith("/")
