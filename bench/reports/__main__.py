"""Measures reports on a large ledger: ``python -m bench.reports`` (needs PostgreSQL on this machine).

Prints how long the ledger takes to be summed up, and for each report over a month, a year and, of a ledger that is as
old (``--days 1095``), three years the median seconds of the processor and of the clock, without parallel workers; a
JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
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
_SPANS = {"month": 30, "year": 365, "three years": 1095}
_TABLES = ("usage", "usage_hour", "usage_by_owner", "usage_by_device", "usage_by_dimension")
Run = Callable[[], Awaitable[Any]]
Seconds = dict[str, float]
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Fill a database of its own, or take the one of ``--url``, and measure."""
    parser = argparse.ArgumentParser(prog="python -m bench.reports")
    parser.add_argument("--server", default="postgresql://postgres@127.0.0.1:5432/postgres", help="a PostgreSQL server")
    parser.add_argument("--url", help="a store that is filled already, to be read alone")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--archived", type=int, default=500_000, help="rows whose jobs are in the archive")
    parser.add_argument("--days", type=int, default=365, help="how old the ledger is")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--unsummed", action="store_true", help="measure the ledger itself, as before it is summed up")
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
    alone = f"{url}{'&' if '?' in url else '?'}options=-cmax_parallel_workers_per_gather%3D0"
    store = PostgresStore(alone)
    await store.open()
    connection = await AsyncConnection.connect(alone, autocommit=True)
    if options.unsummed:
        await store.forget_sums()
    else:
        await _sum_up(store, connection)
    found: dict[str, dict[str, Seconds]] = {}
    questions = list(_questions(store, connection, options.days))
    for name, span, run in track(questions, "reports", console=Console(stderr=True)):
        found.setdefault(name, {})[span] = await _timed(connection, run, options.rounds)
    await connection.close()
    await store.close()
    _print(found)


async def _sum_up(store: PostgresStore, connection: AsyncConnection) -> None:
    """As the janitor does, to the end."""
    hours, busy, started = 0, await _processor_s(connection), time.perf_counter()
    while done := await store.roll_up():
        hours += done
    busy, passed = await _processor_s(connection) - busy, time.perf_counter() - started
    Console().print(f"{hours:,} hours summed up in {busy:,.0f} s of the processor, {passed:,.0f} s by the clock")
    for table in _TABLES:
        await connection.execute(f"VACUUM ANALYZE {table}".encode())
    sizes = f"SELECT relname, reltuples::bigint, pg_total_relation_size(oid) FROM pg_class WHERE relname IN {_TABLES}"
    for name, rows, size in await (await connection.execute(sizes.encode())).fetchall():
        Console().print(f"{name}: {rows:,} rows, {size / 2**20:,.0f} MiB")


def _questions(store: PostgresStore, connection: AsyncConnection, days: int) -> Iterator[tuple[str, str, Run]]:
    """Each report with its span and how it is asked for."""
    last = datetime.now(UTC).date() - timedelta(days=1)
    for span, length in _SPANS.items():
        if length > days:
            continue
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


async def _timed(connection: AsyncConnection, run: Run, rounds: int) -> Seconds:
    busy, clock = [], []
    for _ in range(rounds):
        before, started = await _processor_s(connection), time.perf_counter()
        await run()
        clock.append(time.perf_counter() - started)
        busy.append(await _processor_s(connection) - before)
    return {"processor": median(busy), "clock": median(clock)}


async def _processor_s(connection: AsyncConnection) -> float:
    """What the server's processes for this database have taken so far."""
    query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
    pids = [row[0] for row in await (await connection.execute(query)).fetchall()]
    return sum(_taken_s(pid) for pid in pids)


def _taken_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _print(found: dict[str, dict[str, Seconds]]) -> None:
    spans = [span for span in _SPANS if any(span in times for times in found.values())]
    table = Table("report", *(text for span in spans for text in (f"{span}: processor", "clock")))
    for name, times in found.items():
        cells = [f"{times[span][kind]:.2f} s" for span in spans for kind in ("processor", "clock")]
        table.add_row(name, *cells)
    Console().print(table)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
