"""The soak: thousands of jobs while faults happen by a seeded plan, then an audit of what is left."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import httpx
import psycopg

from tests.chaos.audit import Findings, Window, audit, unfinished
from tests.chaos.faults import FAULTS, LINGERS_S
from tests.chaos.house import House, Plan, now
from tests.chaos.load import Clients, Order, make_orders
from tests.chaos.servers import Servers

_OFTEN = ("kill_worker", "kill_worker", "kill_worker", "pause_worker", "kill_api")  # besides one of each
_CLIENTS = 24
_KEYS = 3
_UNDISTURBED = 0.5  # how often a job that was hit is let come back before the next fault
_BACKLOG = 1_000  # clients wait while more jobs than that have not ended
_LOOK_EVERY_S = 0.5
_PATIENCE_S = 60.0  # how long nothing may end after the faults before the soak gives up


@dataclass(frozen=True, slots=True)
class Soak:
    """What is to be done. ``minutes`` spreads the submits over that time; None: as fast as the house takes them."""

    jobs: int
    seed: int
    plan: Plan
    minutes: float | None = None


@dataclass(slots=True)
class Outcome:
    """What came of it; times in seconds."""

    soak: Soak
    findings: Findings
    faults: Counter[str]
    accepted: int
    refused: list[str]
    repeats: int
    seconds: float
    log: Path


@dataclass(slots=True)
class Standing:
    """How far a soak is, for whoever draws a bar."""

    accepted: int = 0
    unfinished: int = 0
    fault: str = ""
    faults: Counter[str] = field(default_factory=Counter)


def run_soak(soak: Soak, servers: Servers, folder: Path, tell: Callable[[Standing], None] | None = None) -> Outcome:
    """Run it on servers that are up, with the logs of all processes in ``folder``."""
    with House(servers, folder, soak.plan) as house:
        return asyncio.run(_Running(soak, house, tell or (lambda _standing: None)).run())


class _Running:
    def __init__(self, soak: Soak, house: House, tell: Callable[[Standing], None]) -> None:
        self._soak = soak
        self._house = house
        self._tell = tell
        self._clients = Clients(house, soak.seed, house.make_keys(_KEYS))
        self._standing = Standing()
        self._windows: list[Window] = []
        self._room = asyncio.Event()
        self._submitted = asyncio.Event()

    async def run(self) -> Outcome:
        started = time.monotonic()
        watching = asyncio.create_task(self._watch())
        faults = asyncio.create_task(self._strike())
        await self._submit_all()
        await faults
        await asyncio.to_thread(self._house.heal)
        await self._settled()
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        self._standing.accepted, self._standing.unfinished = len(self._clients.accepted), self._unfinished()
        self._tell(self._standing)
        findings = await asyncio.to_thread(self._audit)
        return Outcome(
            soak=self._soak,
            findings=findings,
            faults=self._standing.faults,
            accepted=len(self._clients.accepted),
            refused=self._clients.refused,
            repeats=self._clients.repeats,
            seconds=time.monotonic() - started,
            log=self._house.folder,
        )

    def _audit(self) -> Findings:
        with self._house.connect() as connection:
            return audit(connection, self._house.outputs, self._clients.accepted, self._house.hits, self._windows)

    async def _submit_all(self) -> None:
        orders = iter(make_orders(self._soak.jobs, self._soak.seed))
        started = time.monotonic()
        async with httpx.AsyncClient(timeout=10, limits=httpx.Limits(max_connections=_CLIENTS)) as http:
            await asyncio.gather(*(self._client(http, orders, started) for _ in range(_CLIENTS)))
        self._submitted.set()

    async def _client(self, http: httpx.AsyncClient, orders: Iterator[Order], started: float) -> None:
        spread = (self._soak.minutes or 0) * 60 / max(self._soak.jobs, 1)
        for order in orders:
            await self._room.wait()
            await asyncio.sleep(max(0.0, started + order.number * spread - time.monotonic()))
            await self._clients.submit(http, order)

    async def _strike(self) -> None:
        """Every fault in a random order, then all of them again, until the last job has ended or the time is over."""
        chance = random.Random(f"faults {self._soak.seed}")
        while not self._submitted.is_set():
            deck = [*sorted(FAULTS), *_OFTEN]
            for name in chance.sample(deck, len(deck)):
                self._standing.fault = name
                hits, begin = len(self._house.hits), now()
                await asyncio.to_thread(FAULTS[name], self._house, chance)
                self._windows.append((name, begin, now() + timedelta(seconds=LINGERS_S[name])))
                self._standing.faults[name] += 1
                self._standing.fault = ""
                undisturbed = len(self._house.hits) > hits and chance.random() < _UNDISTURBED
                pause = 2.0 if undisturbed else chance.uniform(0.1, 0.5)
                await asyncio.sleep(pause * self._soak.plan.lease_s)
                if self._submitted.is_set() and (self._soak.minutes is not None or self._standing.unfinished == 0):
                    return

    async def _watch(self) -> None:
        while True:
            with suppress(psycopg.OperationalError):
                self._standing.unfinished = await asyncio.to_thread(self._unfinished)
            if self._standing.unfinished < _BACKLOG:
                self._room.set()
            else:
                self._room.clear()
            self._standing.accepted = len(self._clients.accepted)
            self._tell(self._standing)
            await asyncio.sleep(_LOOK_EVERY_S)

    def _unfinished(self) -> int:
        with self._house.connect() as connection:
            return unfinished(connection)

    async def _settled(self) -> None:
        """Wait until every job has ended, or none has for a while."""
        least, since = self._unfinished(), time.monotonic()
        while least and time.monotonic() - since < _PATIENCE_S:
            await asyncio.sleep(_LOOK_EVERY_S)
            left = await asyncio.to_thread(self._unfinished)
            if left < least:
                least, since = left, time.monotonic()
