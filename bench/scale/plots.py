"""Plots of the simulated fleets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.scale.fleet import Outcome

Rows = Mapping[str, Mapping[str, Mapping[str, float]]]

mpl.rcParams["svg.hashsalt"] = "safelight"  # the same picture for the same numbers


def sizes(found: Mapping[int, Mapping[float, Mapping[str, float]]], file: Path) -> None:
    """The wait by how busy a fleet is, a line for each size."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for size, by_load in found.items():
        waits = [max(row["p95_s"], 0.01) for row in by_load.values()]
        axes.plot([100 * load for load in by_load], waits, marker="o", label=f"{size:,} workers")
    axes.set(xlabel="load, % of what the fleet can render", ylabel="95% wait at most, s", yscale="log")
    axes.legend()
    _save(figure, file)


def rules(found: Rows, file: Path) -> None:
    """Wait and cost by arrival rate, a line for each rule."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, by_rate in found.items():
        rates = [float(rate) for rate in by_rate]
        left.plot(rates, [max(row["p95_s"], 0.1) for row in by_rate.values()], marker="o", label=name)
        right.plot(rates, [row["hours_a_thousand"] for row in by_rate.values()], marker="o", label=name)
    left.set(xlabel="jobs a second at the highest", ylabel="95% wait at most, s", xscale="log", yscale="log")
    right.set(xlabel="jobs a second at the highest", ylabel="worker hours for 1,000 pictures", xscale="log")
    right.set_ylim(bottom=0)
    right.legend()
    _save(figure, file)


def step(outcomes: Mapping[str, Outcome], file: Path) -> None:
    """Workers and the oldest wait over time, a line for each rule."""
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    for name, outcome in outcomes.items():
        minutes = [at / 60 for at, *_ in outcome.line]
        upper.plot(minutes, [workers for *_, workers, _ in outcome.line], drawstyle="steps-post", label=name)
        lower.plot(minutes, [oldest for *_, oldest in outcome.line], label=name)
    upper.set(ylabel="workers", yscale="log")
    lower.set(xlabel="minutes", ylabel="oldest wait, s")
    upper.legend(fontsize="small")
    _save(figure, file)


def _save(figure: Any, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None})
