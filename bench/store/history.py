"""How long a claim takes with a small queue and no history, and with a great one and millions of finished jobs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier
from rich.progress import Progress

from bench.store.jobs import LANE, finished, new_job, new_worker
from jobstore.ids import uuid7
from jobstore.postgres.store import PostgresStore

_COLUMNS = (
    "id", "state", "lane", "model", "batch_key", "rank_at", "start_tag", "share_s", "expected_s", "request", "format",
    "fingerprint", "seedless_fingerprint", "joinable", "cache", "currency", "price", "max_attempts",
    "attempts_allowed", "finished_at",
)  # fmt: skip
_ARCHIVE_INDEXES = """
SELECT indexname AS name, indexdef AS definition FROM pg_indexes
WHERE tablename = 'job_archive' AND indexname <> 'job_archive_pkey'
"""


def fill(url: str, queued: int, ended: int, progress: Progress) -> None:
    """Put jobs straight into the tables by COPY: so many that wait, and so many that ended an hour ago."""
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO lane (name) VALUES (%s)", [LANE])
        indexes = connection.execute(_ARCHIVE_INDEXES).fetchall()
        for name, _ in indexes:
            connection.execute(SQL("DROP INDEX {}").format(Identifier(name)))
        _copy(connection, "job_archive", ended, "succeeded", progress, sequence=True)
        for _, definition in indexes:
            connection.execute(definition)
        _copy(connection, "job", queued, "queued", progress)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _copy(
    connection: psycopg.Connection[Any],
    table: str,
    count: int,
    state: str,
    progress: Progress,
    *,
    sequence: bool = False,
) -> None:
    columns = (*_COLUMNS, "seq") if sequence else _COLUMNS
    names = SQL(", ").join(Identifier(name) for name in columns)
    task = progress.add_task(f"{count:,} {state}", total=count or 1)
    with (
        connection.cursor() as cursor,
        cursor.copy(SQL("COPY {} ({}) FROM STDIN").format(Identifier(table), names)) as copy,
    ):
        for number, row in enumerate(_rows(count, state)):
            # Below those that the sequence hands out.
            copy.write_row((*row, number - count) if sequence else row)
            if number % 10_000 == 0:
                progress.update(task, completed=number)
    progress.update(task, completed=count or 1)


def _rows(count: int, state: str) -> Iterator[tuple[Any, ...]]:
    template = new_job(0)
    request = json.dumps(
        {"model": "scenes", "prompt": "a red circle", "width": 128, "height": 128, "steps": 8, "seed": 1}
    )
    ended = time.strftime("%Y-%m-%d %H:%M:%S+00", time.gmtime(time.time() - 3600)) if state == "succeeded" else None
    for number in range(count):
        tag = 0.8 * number
        fingerprint = f"{number + 10**9:064x}"
        yield (
            uuid7(), state, LANE, "scenes", template.batch_key, tag, tag, 0.8, 0.8, request, "png", fingerprint,
            fingerprint, state == "queued", "miss", "USD", "0.002", 3, 3, ended,
        )  # fmt: skip


class Claims:
    """Claims and finishes on one database, timed. What is claimed is replaced, so that the queue keeps its length."""

    def __init__(self, url: str, workers: int) -> None:
        self._store = PostgresStore(url, max_connections=workers)
        self._workers = [new_worker() for _ in range(workers)]
        self._number = 10**7
        self.seconds: list[float] = []

    async def __aenter__(self) -> Claims:
        await self._store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._store.close()

    async def run(self, times: int) -> None:
        """Claim so many times with every worker at once."""
        await asyncio.gather(*(self._run(number, times) for number in range(len(self._workers))))

    async def _run(self, number: int, times: int) -> None:
        worker = self._workers[number]
        for _ in range(times):
            start = time.perf_counter()
            lease = await self._store.claim(worker, worker.lanes)
            self.seconds.append(time.perf_counter() - start)
            if lease is None:
                raise RuntimeError("the queue ran dry")
            await self._store.finish(lease.token, finished(lease))
            self._number += 1
            await self._store.submit(new_job(self._number))


async def compare(small: str, great: str, workers: int, claims: int) -> tuple[list[float], list[float]]:
    """Seconds of claims on both databases, which take turns every few claims."""
    turn = 25
    async with Claims(small, workers) as one, Claims(great, workers) as other:
        for side in (one, other):
            await side.run(turn)  # plans, caches
            side.seconds.clear()
        for _ in range(max(1, claims // (turn * workers))):
            await one.run(turn)
            await other.run(turn)
        return one.seconds, other.seconds
