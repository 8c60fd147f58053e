"""Measures the job store: ``python -m bench.store`` (needs PostgreSQL, and ``pip install 'safelight[bench]'``).

Prints tables of medians, percentiles and ratios, and a JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from statistics import quantiles
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

try:
    from bench.store import bell, history, throughput
except ModuleNotFoundError as missing:
    raise SystemExit(f"{missing}: run  make bench  or  pip install 'safelight[bench]'") from missing
from bench.store.jobs import database
from jobstore.postgres.store import PostgresStore
from safelight.config import LogSettings
from safelight.telemetry.logs import configure_logging

_CONSOLE = Console()


def main() -> None:
    """Run what the command line asks for."""
    options = _options()
    configure_logging(LogSettings(level="warning", format="console"))
    found: dict[str, Any] = {}
    with Progress(console=_CONSOLE) as progress:
        if "throughput" in options.parts:
            found["throughput"] = _throughput(options, progress)
        if "history" in options.parts:
            found["history"] = _history(options, progress)
        if "bell" in options.parts:
            found["bell"] = _bell(options, progress)
    print(json.dumps(found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.store", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parts = ("throughput", "history", "bell")
    parser.add_argument("parts", nargs="*", metavar="PART", help="throughput, history, bell; all by default")
    parser.add_argument("--server", default="postgresql://postgres@127.0.0.1:5432/postgres", help="a PostgreSQL server")
    parser.add_argument("--broker", default=os.environ.get("SAFELIGHT_BROKER", "memory"), help="memory, or amqp://…")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--jobs", type=int, default=2000, help="jobs a round of throughput, bells a run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", type=int, default=1_000, help="queued jobs of the small side")
    parser.add_argument("--queued", type=int, default=1_000_000, help="queued jobs of the great side")
    parser.add_argument("--finished", type=int, default=5_000_000, help="finished jobs of the great side")
    parser.add_argument("--claims", type=int, default=2_000)
    options = parser.parse_args()
    options.parts = options.parts or list(parts)
    if unknown := set(options.parts) - set(parts):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    return options


def _throughput(options: argparse.Namespace, progress: Progress) -> list[dict[str, Any]]:
    table = Table("workers", "what", "safelight /s", "procrastinate /s", "ratio", title="Jobs a second (medians)")
    found = []
    for workers in options.workers:
        ours, theirs = throughput.measure(options.server, workers, options.jobs, options.rounds, progress)
        for what, rate in ours.items():
            ratio = rate / theirs[what]
            table.add_row(str(workers), what, f"{rate:,.0f}", f"{theirs[what]:,.0f}", f"{ratio:.2f}")
            found.append(
                {"workers": workers, "what": what, "safelight": rate, "procrastinate": theirs[what], "ratio": ratio}
            )
    _CONSOLE.print(table)
    return found


def _history(options: argparse.Namespace, progress: Progress) -> list[dict[str, Any]]:
    table = Table("workers", "queue", "p50 ms", "p99 ms", "p99 ratio", title="How long a claim takes")
    found = []
    with database(options.server) as small, database(options.server) as great:
        for url, queued, ended in ((small, options.small, 0), (great, options.queued, options.finished)):
            asyncio.run(_migrate(url))
            history.fill(url, queued, ended, progress)
        for workers in options.workers:
            sides = asyncio.run(history.compare(small, great, workers, options.claims))
            (p50, p99), (great_p50, great_p99) = (_percentiles(side) for side in sides)
            table.add_row(str(workers), f"{options.small:,} queued", f"{p50:.2f}", f"{p99:.2f}", "1")
            name = f"{options.queued:,} queued, {options.finished:,} finished"
            table.add_row("", name, f"{great_p50:.2f}", f"{great_p99:.2f}", f"{great_p99 / p99:.2f}")
            found.append(
                {
                    "workers": workers,
                    "small_ms": [p50, p99],
                    "great_ms": [great_p50, great_p99],
                    "p99_ratio": great_p99 / p99,
                }
            )
    _CONSOLE.print(table)
    return found


def _bell(options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    with database(options.server) as url:
        asyncio.run(_migrate(url))
        p50, p99 = _percentiles(bell.measure(url, options.broker, min(options.jobs, 200), progress))
    broker = options.broker.partition(":")[0]
    table = Table("broker", "p50 ms", "p99 ms", title="From submit to start, idle worker")
    table.add_row(broker, f"{p50:.1f}", f"{p99:.1f}")
    _CONSOLE.print(table)
    return {"broker": broker, "p50_ms": p50, "p99_ms": p99}


async def _migrate(url: str) -> None:
    store = PostgresStore(url)
    await store.open()
    await store.migrate()
    await store.close()


def _percentiles(seconds: list[float]) -> tuple[float, float]:
    """The 50th and the 99th, in milliseconds."""
    cuts = quantiles(seconds, n=100)
    return 1000 * cuts[49], 1000 * cuts[98]


if __name__ == "__main__":
    main()
