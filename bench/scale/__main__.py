"""Simulates fleets: ``python -m bench.scale`` (the extra bench; minutes on one core).

``sizes``: how long jobs wait in fleets of 1 to 1,000 workers, by how busy they are. ``rules``: waits and costs of rules
that size a fleet, by arrival rate, over waves of arrivals. ``step``: what each rule does when eight times as much comes
at once. The times are those of a device that was measured (``--step``, ``--row``). Prints tables, draws plots, and a
JSON line last.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.scale import plots
from bench.scale.fleet import Fleet, Outcome, Times
from bench.scale.policies import Policy, by_depth, by_drain, by_oldest, fixed, safelight

_CONSOLE = Console()
_SIZES = (1, 3, 10, 30, 100, 300, 1000)
_LOADS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
_PICTURES = 20_000  # of a run, about
_MOST = 2000
_WAVE_S = 7200.0
_TARGET_S = 60.0
_PARTS = ("sizes", "rules", "step")


def main() -> None:
    """Run what the command line asks for."""
    options = _options()
    times = Times(
        steps=options.steps, step_s=options.step, row_s=options.row, batch=options.batch, start_s=options.start
    )
    found: dict[str, Any] = {"device_s": round(times.device_s, 3)}
    with Progress(console=_CONSOLE) as progress:
        for part in options.parts:
            run = {"sizes": _sizes, "rules": _rules, "step": _step}[part]
            found[part] = run(times, options, progress)
    print(json.dumps(found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(_PARTS)}; all by default")
    parser.add_argument("--steps", type=int, default=28, help="denoising steps of a picture")
    parser.add_argument("--step", type=float, default=0.05, help="seconds of a step, whatever it holds")
    parser.add_argument("--row", type=float, default=0.07, help="seconds that each picture adds to a step")
    parser.add_argument("--batch", type=int, default=8, help="pictures that step together at most")
    parser.add_argument("--start", type=float, default=90.0, help="seconds from asking for a worker to its first claim")
    parser.add_argument("--largest", type=int, default=_SIZES[-1], help="the largest fleet, in workers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plots", type=Path, default=Path("docs/images"), help="folder of the plots")
    options = parser.parse_args()
    options.parts = options.parts or list(_PARTS)
    if unknown := set(options.parts) - set(_PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(_PARTS)}")
    return options


def rules(most: int = _MOST, batch: int = 8) -> dict[str, Policy]:
    """The rules that are compared, by what the plots call them."""
    return {
        f"queue depth ({batch} a worker)": by_depth(batch, most),
        "oldest wait": by_oldest(_TARGET_S, most),
        "drain time": by_drain(_TARGET_S, most),
        "safelight": safelight(_TARGET_S, most),
    }


def wait(outcome: Outcome, part: float) -> float:
    """The wait, in seconds, that so large a part of the jobs did not exceed."""
    ordered = sorted(outcome.waits)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else math.nan


def hours(outcome: Outcome) -> float:
    """Hours of workers for a thousand pictures."""
    return outcome.worker_s / 3.6 / len(outcome.waits) if outcome.waits else math.nan


def _told(outcome: Outcome, times: Times) -> dict[str, float]:
    return {
        "p50_s": round(wait(outcome, 0.5), 2),
        "p95_s": round(wait(outcome, 0.95), 2),
        "hours_a_thousand": round(hours(outcome), 3),
        "workers": round(outcome.worker_s / outcome.seconds, 1),
        "busy": round(outcome.busy_s / outcome.worker_s, 3),
        "store_busy": round(outcome.store_s / outcome.seconds / times.store_cores, 4),
        "left": outcome.left,
    }


def _sizes(times: Times, options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Fleets that stay as they are."""
    sizes = [size for size in _SIZES if size <= options.largest]
    task = progress.add_task("sizes", total=len(sizes) * len(_LOADS))
    found: dict[int, dict[float, dict[str, float]]] = {}
    for size in sizes:
        found[size] = {}
        for load in _LOADS:
            rate = load * size / times.device_s
            seconds = max(_PICTURES / rate, 40 * times.render(times.batch))
            outcome = Fleet(times, fixed(size), lambda _, rate=rate: rate, options.seed, size).run(seconds)  # type: ignore[misc]
            found[size][load] = _told(outcome, times)
            progress.advance(task)
    table = Table("workers", *(f"{load:.0%} of what they can" for load in _LOADS), title="95% wait at most, seconds")
    for size, by_load in found.items():
        table.add_row(f"{size:,}", *(f"{by_load[load]['p95_s']:.1f}" for load in _LOADS))
    _CONSOLE.print(table)
    plots.sizes(found, options.plots / "scale-sizes.svg")
    return {str(size): by_load for size, by_load in found.items()}


def _rules(times: Times, options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Rules over waves between a tenth of the highest rate and all of it."""
    sizes = [size for size in _SIZES if size <= options.largest]
    policies = rules(batch=options.batch)
    task = progress.add_task("rules", total=len(sizes) * len(policies))
    found: dict[str, dict[str, dict[str, float]]] = {name: {} for name in policies}
    for size in sizes:
        highest = size / times.device_s
        for name, policy in policies.items():
            first = max(1, size // 10)
            outcome = Fleet(times, policy, partial(_wave, highest), options.seed, first).run(_WAVE_S)
            found[name][f"{highest:.3g}"] = _told(outcome, times)
            progress.advance(task)
    _tell(found, "waves; jobs a second at their highest")
    plots.rules(found, options.plots / "scale-rules.svg")
    return found


def _wave(highest: float, at: float) -> float:
    return highest * (0.55 - 0.45 * math.cos(2 * math.pi * at / _WAVE_S))


def _step(times: Times, options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Half an hour of little, half an hour of eight times as much, half an hour of little again."""
    policies = rules(batch=options.batch)
    task = progress.add_task("step", total=len(policies))
    little = 3 / times.device_s
    outcomes: dict[str, Outcome] = {}
    for name, policy in policies.items():
        outcomes[name] = Fleet(times, policy, lambda at: little * (8 if 1800 <= at < 3600 else 1), options.seed, 4).run(
            5400
        )
        progress.advance(task)
    found = {name: {f"{little:.3g}": _told(outcome, times)} for name, outcome in outcomes.items()}
    _tell(found, "a step to eight times as much; jobs a second before it")
    plots.step(outcomes, options.plots / "scale-step.svg")
    return found


def _tell(found: Mapping[str, Mapping[str, Mapping[str, float]]], title: str) -> None:
    table = Table("rule", "rate", "p50 s", "p95 s", "hours a thousand", "workers", "busy", "store busy", title=title)
    for name, by_rate in found.items():
        for rate, row in by_rate.items():
            table.add_row(
                name, rate, f"{row['p50_s']:.1f}", f"{row['p95_s']:.1f}", f"{row['hours_a_thousand']:.2f}",
                f"{row['workers']:.1f}", f"{row['busy']:.0%}", f"{row['store_busy']:.1%}",
            )  # fmt: skip
    _CONSOLE.print(table)


if __name__ == "__main__":
    main()
