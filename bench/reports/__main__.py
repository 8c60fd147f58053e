"""Measures reports on a large ledger: ``python -m bench.reports`` (needs PostgreSQL).

Prints the median seconds of each report over a month and over the whole year, and a JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from typing import Any

from psycopg import AsyncConnection
from rich.console import Console
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
        took_s = fill(url, options.rows, options.archived, options.days)
        Console().print(f"{options.rows:,} rows written in {took_s:,.0f} s")
        asyncio.run(_measure(url, options))


async def _migrate(url: str) -> None:
    store = PostgresStore(url)
    await store.open()
    await store.migrate()
    await store.close()


async def _measure(url: str, options: argparse.Namespace) -> None:
    await install(url, None)
    found: dict[str, dict[str, float]] = {}
    last = datetime.now(UTC).date() - timedelta(days=1)
    store = PostgresStore(url)
    await store.open()
    connection = await AsyncConnection.connect(url, autocommit=True)
    for span, days in (("month", 30), ("year", options.days)):
        first = last - timedelta(days=days - 1)
        for by in _GROUPS:
            query = ReportQuery(first=first, last=last, zone="Europe/Berlin", by=by)
            name = f"by {' x '.join(by)}"
            found.setdefault(f"costs {name}", {})[span] = await _timed(partial(store.costs, query), options)
            found.setdefault(f"latency {name}", {})[span] = await _timed(partial(store.latency, query), options)
        for view in _VIEWS:
            text = f"SELECT * FROM safelight_report.{view}('Europe/Berlin', '{first}', '{last}')".encode()
            found.setdefault(view, {})[span] = await _timed(partial(_read, connection, text), options)
    await connection.close()
    await store.close()
    _print(found)


async def _read(connection: AsyncConnection, text: bytes) -> None:
    await (await connection.execute(text)).fetchall()


async def _timed(run: Run, options: argparse.Namespace) -> float:
    times = []
    for _ in range(options.rounds):
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
