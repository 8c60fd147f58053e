"""Measures how fast jobs are taken in: ``python -m bench.submit`` (needs PostgreSQL, Redis, wrk and the extra bench).

One API process of ours with a key, budgets and idempotency keys on, over PostgreSQL with synchronous commit; the same
application's POST that does nothing; and FastAPI with Celery on Redis. All are loaded by wrk in turns. Prints a table
of medians and ratios, and a JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.store.jobs import database
from bench.submit import streams
from bench.submit.servers import Load, load, serving
from bench.submit.setting import prepare, settings_file

_CONSOLE = Console()


def main() -> None:
    """Run what the command line asks for."""
    options = _options()
    with database(options.server) as url, tempfile.TemporaryDirectory() as folder:
        key = asyncio.run(prepare(url))
        environment = {"SAFELIGHT_CONFIG": str(settings_file(Path(folder), url))}
        with ExitStack() as stack, Progress(console=_CONSOLE) as progress:
            ours, pid = stack.enter_context(serving(["bench.submit.site", "PORT"], "/livez", environment))
            peer, _ = stack.enter_context(
                serving(["uvicorn", "bench.submit.peer:app", "--port", "PORT", "--no-access-log", "--log-level",
                         "warning"], "/docs", {"PEER_REDIS": options.redis})
            )  # fmt: skip
            urls = {"nothing": f"{ours}/nothing", "submit": f"{ours}/v1/jobs", "peer": f"{peer}/jobs"}
            runs = _rounds(options, urls, key, progress)
            kept = _verified(options, urls["submit"], key, url, Path(folder))
            task = progress.add_task("streams", total=options.streams)
            step = partial(progress.advance, task)
            watched = asyncio.run(streams.measure(ours, url, key, pid, options.streams, lambda _: step()))
    found = _told(options, runs, kept) | {"streams": watched}
    late = ", ".join(f"{name} {watched[f'{name}_ms']:.0f} ms" for name in ("p50", "p95", "p99"))
    memory = ", ".join(f"{name} {size:.0f}" for name, size in watched["mib"].items())
    _CONSOLE.print(f"{watched['streams']} event streams: {watched['told']} starts told {late} after they were written")
    _CONSOLE.print(f"MiB of the API's process: {memory}")
    print(json.dumps(found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.submit", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--server", default="postgresql://postgres@127.0.0.1:5432/postgres", help="a PostgreSQL server")
    parser.add_argument("--redis", default="redis://127.0.0.1:6379/9", help="an empty Redis database")
    parser.add_argument("--seconds", type=int, default=5, help="of each run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", type=int, default=1000, help="clients that watch a job each")
    parser.add_argument("--connections", type=int, default=64)
    return parser.parse_args()


def _rounds(options: argparse.Namespace, urls: dict[str, str], key: str, progress: Progress) -> dict[str, list[Load]]:
    runs: dict[str, list[Load]] = {name: [] for name in urls}
    task = progress.add_task("load", total=(options.rounds + 1) * len(urls))
    for number in range(options.rounds + 1):
        for name, url in urls.items():
            seen = load(url, f"{name}{number}", seconds=options.seconds, connections=options.connections, key=key)
            if number:  # the first round warms up
                runs[name].append(seen)
            progress.advance(task)
    return runs


def _verified(options: argparse.Namespace, url: str, key: str, store: str, folder: Path) -> dict[str, int]:
    """One run whose accepted ids are all looked up in the store afterwards."""
    ids = folder / "ids"
    load(url, "verified", seconds=options.seconds, connections=options.connections, key=key, ids=ids)
    accepted = [line for part in folder.glob("ids.*") for line in part.read_text().split()]
    with psycopg.connect(store) as connection:
        query = "SELECT count(*) FROM any_job WHERE id = ANY(%s::uuid[])"
        row = connection.execute(query, [accepted]).fetchone()
    return {"accepted": len(accepted), "distinct": len(set(accepted)), "found": row[0] if row else 0}


def _told(options: argparse.Namespace, runs: dict[str, list[Load]], kept: dict[str, int]) -> dict[str, Any]:
    names = {"nothing": "POST that does nothing", "submit": "submit", "peer": "FastAPI + Celery + Redis"}
    table = Table(
        "what", "requests/s", "submit's ratio to it", "p50 ms", "p99 ms", "failed",
        title=f"{options.connections} connections, {options.seconds} s a run (medians of {options.rounds})",
    )  # fmt: skip
    found: dict[str, Any] = {"kept": kept}
    for name, label in names.items():
        seen = runs[name]
        ratio = median(ours.rate / theirs.rate for ours, theirs in zip(runs["submit"], seen, strict=True))
        found[name] = {
            "rate": median(run.rate for run in seen), "ratio": ratio,
            "p50_ms": median(run.p50_ms for run in seen), "p99_ms": median(run.p99_ms for run in seen),
            "failed": sum(run.failed for run in seen),
        }  # fmt: skip
        row = found[name]
        table.add_row(label, f"{row['rate']:,.0f}", f"{ratio:.2f}", f"{row['p50_ms']:.1f}", f"{row['p99_ms']:.1f}",
                      str(row["failed"]))  # fmt: skip
    _CONSOLE.print(table)
    _CONSOLE.print(
        f"accepted {kept['accepted']:,}, distinct {kept['distinct']:,}, found in the store {kept['found']:,}"
    )
    return found


if __name__ == "__main__":
    main()
