"""A thousand clients that watch their jobs: how late events come, and what the API's process takes of memory."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from statistics import quantiles
from typing import Any
from urllib.parse import urlsplit

import msgspec
import psutil

from bench.store.jobs import new_job
from jobstore.ids import uuid7
from jobstore.postgres.store import PostgresStore
from jobstore.protocol import Worker

_LANE = "watched"


class Watchers:
    """Clients on event streams. ``late_s`` is how long after its event each told of a start, in seconds."""

    def __init__(self, address: str, key: str) -> None:
        """Nothing is connected yet."""
        parts = urlsplit(address)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._key = key
        self._tasks: list[asyncio.Task[None]] = []
        self._open = self._wanted = 0
        self._all_open = asyncio.Event()
        self.late_s: list[float] = []

    async def watch(self, job_ids: list[str]) -> None:
        """Open a stream a job, and wait until all have begun."""
        self._tasks = [asyncio.create_task(self._stream(job_id)) for job_id in job_ids]
        self._wanted = len(job_ids)
        await asyncio.wait_for(self._all_open.wait(), 120)

    async def close(self) -> None:
        """Cut all streams."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _stream(self, job_id: str) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(
                f"GET /v1/jobs/{job_id}/events HTTP/1.1\r\nHost: {self._host}\r\n"
                f"Authorization: Bearer {self._key}\r\n\r\n".encode()
            )
            counted = False
            while line := await reader.readline():
                if not counted and line.startswith(b"data:"):
                    counted, self._open = True, self._open + 1
                    if self._open == self._wanted:
                        self._all_open.set()
                if b'"state":"running"' in line and line.startswith(b"data:"):
                    told = json.loads(line[5:])
                    if "at" in told:
                        self.late_s.append(time.time() - datetime.fromisoformat(told["at"]).timestamp())
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def measure(address: str, url: str, key: str, pid: int, count: int, on_step: Callable[[int], None]) -> Any:
    """Start ``count`` watched jobs over some ten seconds; milliseconds late, and the process's memory in MiB."""
    store = PostgresStore(url)
    await store.open()
    [known] = await store.list_keys()
    jobs = [msgspec.structs.replace(new_job(number, _LANE), key_id=known.id) for number in range(count)]
    for start in range(0, count, 64):
        await asyncio.gather(
            *(store.submit(msgspec.structs.replace(job, key_id=known.id)) for job in jobs[start : start + 64])
        )
    before = _memory(pid)
    watchers = Watchers(address, key)
    await watchers.watch([str(job.id) for job in jobs])
    opened = _memory(pid)
    worker = Worker(id=uuid7(), host="bench", pid=1, device="none", lanes=(_LANE,), lease_s=600)
    half = 0.0
    for number in range(count):
        await store.claim(worker, [_LANE])
        await asyncio.sleep(0.01)
        on_step(number)
        half = _memory(pid) if number == count // 2 else half
    await asyncio.sleep(2)
    late = [1e3 * seconds for seconds in watchers.late_s]
    end = _memory(pid)
    await watchers.close()
    await asyncio.sleep(2)
    await store.close()
    cuts = quantiles(late, n=100)
    return {
        "streams": count, "told": len(late), "p50_ms": cuts[49], "p95_ms": cuts[94], "p99_ms": cuts[98],
        "mib": {"before": before, "opened": opened, "half": half, "end": end, "closed": _memory(pid)},
    }  # fmt: skip


def _memory(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss / 2**20)
