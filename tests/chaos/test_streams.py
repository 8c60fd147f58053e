"""A thousand clients that watch one job: some read, some never do, some are gone at once."""

from __future__ import annotations

import asyncio
import re

import httpx

from tests.chaos.desk import LIMIT_S, Desk
from tests.chaos.house import House
from tests.chaos.member import frozen, url_of
from tests.e2e.processes import wait_for

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
READERS, SLOW, GONE = 400, 300, 300
_AT_ONCE = 100


async def test_a_thousand_watchers(house: House, desk: Desk) -> None:
    """Every reader hears the end once; the API goes on answering, and is free of them all afterwards."""
    api = house.apis[0]
    gate = asyncio.Semaphore(_AT_ONCE)
    with frozen(*house.workers):  # nothing is to happen before all are there
        job_id = await asyncio.to_thread(desk.submit, steps=50)
        opened = await asyncio.gather(*(watch(api.port, job_id, gate) for _ in range(READERS + SLOW + GONE)))
    for _, writer in opened[READERS + SLOW :]:
        writer.transport.abort()
    async with asyncio.timeout(LIMIT_S), httpx.AsyncClient(base_url=url_of(api), timeout=LIMIT_S) as http:
        assert (await http.get("/readyz")).status_code == 200
        ends = await asyncio.gather(*(read_end(api.port, job_id, gate, reader) for reader, _ in opened[:READERS]))
        assert ends == [1] * READERS
    for _, writer in opened:
        writer.transport.abort()
    await asyncio.to_thread(wait_for, "the API to be free of them", lambda: open_streams(url_of(api)) == 0)
    assert await asyncio.to_thread(desk.wait, job_id)


async def watch(port: int, job_id: str, gate: asyncio.Semaphore, last: int = 0) -> Streams:
    """An open stream of the job's events after ``last``, its head read."""
    async with gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"GET /v1/jobs/{job_id}/events?last_event_id={last} HTTP/1.1\r\nHost: localhost\r\nConnection: close"
        writer.write(f"{head}\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT_S)
        assert b" 200 " in answer.splitlines()[0]
        return reader, writer


async def read_end(port: int, job_id: str, gate: asyncio.Semaphore, reader: asyncio.StreamReader) -> int:
    """How often the job's end is told; a stream that breaks off is taken up again after its last event."""
    told = last = 0
    while not told:
        text = b""
        while chunk := await reader.read(65_536):
            text += chunk
        told = text.count(b"event: done")
        last = max([last, *map(int, re.findall(rb"^id: (\d+)$", text, re.M))])
        if not told:
            await asyncio.sleep(0.5)
            reader, _writer = await watch(port, job_id, gate, last)
    return told


def open_streams(url: str) -> int:
    """The streams that the API process counts as open."""
    lines = httpx.get(f"{url}/metrics", timeout=LIMIT_S).text.splitlines()
    return next(int(float(line.split()[-1])) for line in lines if line.startswith("safelight_event_streams_open"))
