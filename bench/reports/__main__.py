"""Measures reports on a large ledger: ``python -m bench.reports`` (needs PostgreSQL).

Prints the median seconds of each report over a month and over the whole year, and a JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from typing import Any

from psycopg import AsyncConnection
from rich.console import Console
from rich.progress import Progress, track
from rich.table import Table

from bench.reports.ledger import fill
from bench.store.jobs import database
from dashboards.sql.install import install
from jobstore.postgres.store import PostgresStore
from jobstore.reports.model import ReportQuery

_VIEWS = (
    "usage_by_day", "cost_by_dimension", "cost_by_key", "batch_efficiency", "latency_by_dimension", "cache_savings",
)  # fmt: skip
_GROUPS: tuple[tuple[str, ...], ...] = (("team",), ("day", "team"), ("day", "model", "dim:experiment"))
Run = Callable[[], Awaitable[Any]]


def main() -> None:
    """Fill a database of its own, or take the one of ``--url``, and measure."""
    parser = argparse.ArgumentParser(prog="python -m bench.reports")
    parser.add_argument("--server", default="postgresql://postgres@127.0.0.1:5432/postgres", help="a PostgreSQL server")
    parser.add_argument("--url", help="a store that is filled already, to be read alone")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--archived", type=int, default=500_000, help="rows whose jobs are in the archive")
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.url:
        asyncio.run(_measure(options.url, options))
        return
    with database(options.server) as url:
        asyncio.run(_migrate(url))
        started = time.perf_counter()
        with Progress(console=Console(stderr=True)) as progress:
            fill(url, options.rows, min(options.archived, options.rows), options.days, progress)
        Console().print(f"{options.rows:,} rows written in {time.perf_counter() - started:,.0f} s")
        asyncio.run(_measure(url, options))


async def _migrate(url: str) -> None:
    store = PostgresStore(url)
    await store.open()
    await store.migrate()
    await store.close()


async def _measure(url: str, options: argparse.Namespace) -> None:
    await install(url, None)
    store = PostgresStore(url)
    await store.open()
    connection = await AsyncConnection.connect(url, autocommit=True)
    found: dict[str, dict[str, float]] = {}
    questions = list(_questions(store, connection, options.days))
    for name, span, run in track(questions, "reports", console=Console(stderr=True)):
        found.setdefault(name, {})[span] = await _timed(run, options.rounds)
    await connection.close()
    await store.close()
    _print(found)


def _questions(store: PostgresStore, connection: AsyncConnection, days: int) -> Iterator[tuple[str, str, Run]]:
    """Each report with its span and how it is asked for."""
    last = datetime.now(UTC).date() - timedelta(days=1)
    for span, length in (("month", 30), ("year", days)):
        first = last - timedelta(days=length - 1)
        for by in _GROUPS:
            query = ReportQuery(first=first, last=last, zone="Europe/Berlin", by=by)
            yield f"costs by {' x '.join(by)}", span, partial(store.costs, query)
            yield f"latency by {' x '.join(by)}", span, partial(store.latency, query)
        for view in _VIEWS:
            text = f"SELECT * FROM safelight_report.{view}('Europe/Berlin', '{first}', '{last}')".encode()
            yield view, span, partial(_read, connection, text)


async def _read(connection: AsyncConnection, text: bytes) -> None:
    await (await connection.execute(text)).fetchall()


async def _timed(run: Run, rounds: int) -> float:
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        await run()
        times.append(time.perf_counter() - started)
    return median(times)


def _print(found: dict[str, dict[str, float]]) -> None:
    table = Table("report", "a month", "a year")
    for name, times in found.items():
        table.add_row(name, f"{times['month']:.2f} s", f"{times['year']:.2f} s")
    Console().print(table)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
