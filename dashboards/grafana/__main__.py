"""Writes the dashboards' JSON into the folder ``dashboards`` beside this file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from dashboards.grafana.api import api
from dashboards.grafana.canary import canary
from dashboards.grafana.cost import cost
from dashboards.grafana.queue import queue
from dashboards.grafana.workers import workers

FOLDER = Path(__file__).parent / "dashboards"
BOARDS: Mapping[str, Callable[[], str]] = {
    "queue": queue, "workers": workers, "cost": cost, "canary": canary, "api": api,
}  # fmt: skip


def write(folder: Path = FOLDER) -> None:
    """Write a file a dashboard."""
    folder.mkdir(exist_ok=True)
    for name, make in BOARDS.items():
        (folder / f"{name}.json").write_text(make())


if __name__ == "__main__":
    write()
