"""The dashboards as they are checked in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
PROMETHEUS = ROOT / "dashboards/prometheus"
GRAFANA = ROOT / "dashboards/grafana"
RULES = sorted(PROMETHEUS.glob("*.rules.yml"))


class Target(NamedTuple):
    """A query of a panel."""

    board: str
    panel: str
    query: str


def boards() -> dict[str, dict[str, Any]]:
    """The dashboards by the names of their files."""
    return {path.stem: json.loads(path.read_text()) for path in sorted((GRAFANA / "dashboards").glob("*.json"))}


def targets() -> list[Target]:
    """Every query of every panel."""
    return [
        Target(name, panel["title"], target["expr"])
        for name, board in boards().items()
        for panel in board["panels"]
        for target in panel["targets"]
    ]


def rules() -> list[dict[str, Any]]:
    """Every rule that records or alerts."""
    groups = [group for path in RULES for group in yaml.safe_load(path.read_text())["groups"]]
    return [rule for group in groups for rule in group["rules"]]
