"""Measures the engine on this machine's CPU with the shipped model: ``python -m bench.engine``.

``serve``: requests of mixed steps that come in over time, by the plain pipeline one after another, by static batches,
and by the engine. ``overhead``: the engine's step beside a bare loop. ``policy``: waiting times by load and policy on a
simulated device, with a plot. Prints tables of medians and ratios, and a JSON line last.
"""

from __future__ import annotations

import argparse
import json
import platform
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.engine import overhead, policy, servers
from bench.engine.processes import Apart
from bench.engine.trace import make_trace
from safelight.config import LogSettings
from safelight.telemetry.logs import configure_logging

_CONSOLE = Console()
_PARTS = ("serve", "overhead", "policy")


def main() -> None:
    """Run what the command line asks for."""
    options = _options()
    configure_logging(LogSettings(level="error", format="console"))
    found: dict[str, Any] = {"machine": f"{platform.processor() or platform.machine()}, {options.threads} threads"}
    with Progress(console=_CONSOLE) as progress:
        for part in options.parts:
            found[part] = {"serve": _serve, "overhead": _overhead, "policy": _policy}[part](options, progress)
    print(json.dumps(found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.engine", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(_PARTS)}; all by default")
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--rate", type=float, default=60.0, help="arrivals a second (Poisson)")
    parser.add_argument("--size", default="96x96", help="WxH, pixels")
    parser.add_argument("--batch", type=int, default=16, help="rows that step together at most")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--plot", type=Path, default=Path("policy.svg"), help="where policy's plot goes")
    options = parser.parse_args()
    options.parts = options.parts or list(_PARTS)
    if unknown := set(options.parts) - set(_PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(_PARTS)}")
    options.width, options.height = (int(side) for side in options.size.split("x"))
    return options


def _serve(options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    ways = {
        "plain pipeline": Apart(servers.one_after_another, options.threads),
        "static batches": Apart(partial(servers.static_batches, options.batch), options.threads),
        "engine": Apart(partial(servers.continuous, options.batch, "off"), options.threads),
        "engine, compiled": Apart(partial(servers.continuous, options.batch, "regional"), options.threads),
    }
    rounds: dict[str, list[servers.Served]] = {name: [] for name in ways}
    task = progress.add_task("serve", total=(options.rounds + 1) * len(ways))
    for number in range(options.rounds + 1):
        # Other prompts each round: what the engine keeps of a prompt is not what is measured here.
        trace = make_trace(options.requests, options.rate, options.width, options.height, seed=number)
        for name, way in ways.items():
            served = way.ask(trace)
            if number:  # the first round warms up
                rounds[name].append(served)
            progress.advance(task)
    for way in ways.values():
        way.stop()
    return _told(options, rounds)


def _told(options: argparse.Namespace, rounds: dict[str, list[servers.Served]]) -> dict[str, Any]:
    table = Table(
        "way", "pictures/s", "ratio", "p50 s", "p95 s",
        title=f"{options.requests} requests of 4, 28 and 50 steps at {options.size} (medians, {options.rounds} rounds)",
    )  # fmt: skip
    plain, found = rounds["plain pipeline"], {}
    for name, served in rounds.items():
        ratio = median(ours.rate / theirs.rate for ours, theirs in zip(served, plain, strict=True))
        latencies = sorted(latency for each in served for latency in each.latencies_s)
        p50, p95 = latencies[len(latencies) // 2], latencies[int(0.95 * (len(latencies) - 1))]
        rate = median(each.rate for each in served)
        table.add_row(name, f"{rate:.1f}", f"{ratio:.2f}", f"{p50:.2f}", f"{p95:.2f}")
        found[name] = {"rate": rate, "ratio": ratio, "p50_s": p50, "p95_s": p95}
    _CONSOLE.print(table)
    return found


def _overhead(options: argparse.Namespace, progress: Progress) -> dict[int, Any]:
    task = progress.add_task("overhead", total=None)
    found = overhead.compare((1, 4, 8, 16), 60, options.rounds, options.threads, options.width, options.height)
    progress.remove_task(task)
    columns = ("rows", "bare loop ms", "engine ms", "ratio", "of it forward ms", "engine / forward")
    table = Table(*columns, title="A denoising step (medians)")
    for rows, row in found.items():
        times = (f"{row[name]:.2f}" for name in ("bare_ms", "engine_ms"))
        ratios = (f"{row['ratio']:.3f}", f"{row['forward_ms']:.2f}", f"{row['over_forward']:.3f}")
        table.add_row(str(rows), *times, *ratios)
    _CONSOLE.print(table)
    return found


def _policy(options: argparse.Namespace, progress: Progress) -> list[dict[str, Any]]:
    found = policy.compare(progress)
    table = Table("load", "policy", "p50 s", "p95 s", "rows a step", title="A simulated device (see policy.py)")
    for row in found:
        table.add_row(
            f"{row['load']:.0%}", row["policy"], f"{row['p50_s']:.1f}", f"{row['p95_s']:.1f}", f"{row['rows']:.1f}"
        )
    _CONSOLE.print(table)
    policy.plot(found, options.plot)
    _CONSOLE.print(f"plot: {options.plot}")
    return found


if __name__ == "__main__":
    main()
