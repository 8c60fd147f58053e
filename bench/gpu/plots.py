"""A picture of measured knees: pictures a second over rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from actors.engine.compiled.knee import Knee


def plot_knees(knees: Mapping[str, Knee], path: Path) -> None:
    """Draw a curve for each name, its knee marked. The file's ending (.svg, .png) decides the format."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for name, knee in knees.items():
        rows = [timing.rows for timing in knee.timings]
        rates = [timing.rows / timing.seconds for timing in knee.timings]
        (line,) = axes.plot(rows, rates, marker="o", label=f"{name}: {knee.rows}")
        axes.plot(
            knee.rows, rates[rows.index(knee.rows)], marker="o", markersize=12, fillstyle="none", c=line.get_color()
        )
    axes.set_xlabel("rows that step together")
    axes.set_ylabel("rows a second, one step")
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
