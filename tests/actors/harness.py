"""What the tests of a worker share: a worker process on a real store, and a channel that can hold the engine."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

from actors.bell import BrokerBell
from actors.broker import make_broker
from actors.engine import Engine
from actors.worker import WorkerProcess
from jobstore.fingerprint import batch_key, fingerprints
from jobstore.ids import uuid7
from jobstore.job import Job, JobRequest, JobState, NewJob
from jobstore.live import Message, Preview, Progress
from jobstore.outputs import Outputs
from jobstore.postgres.store import PostgresStore
from jobstore.protocol import JobStore
from safelight.config import Settings, WorkerSettings
from tests.engine.conftest import TIMEOUT_S, scenes

MODEL = scenes()


class GatedProgress:
    """A progress channel that keeps what passes, and can hold the engine at its next step."""

    def __init__(self) -> None:
        self.told: list[Progress] = []
        self.previews: list[Preview] = []
        self.reached = threading.Event()
        self._open = threading.Event()
        self._open.set()

    def hold(self) -> None:
        """Let the engine wait from the next step on."""
        self.reached.clear()
        self._open.clear()

    def let_go(self) -> None:
        """Let it go on."""
        self._open.set()

    def publish(self, message: Message) -> None:
        """Keep the message, and wait while held; previews never wait."""
        if isinstance(message, Preview):
            self.previews.append(message)
            return
        self.told.append(message)
        self.reached.set()
        self._open.wait(TIMEOUT_S)

    def listen(self, listener: Callable[[Message], None]) -> Callable[[], None]:
        """Nobody listens here."""
        return lambda: None


class Darkroom:
    """A store, a broker and at most one worker at a time, with a lane of their own."""

    def __init__(self, store: PostgresStore, database: str, outputs: Outputs, engine: Engine, broker: str) -> None:
        self.store = store
        self.outputs = outputs
        self.lane = f"t{uuid.uuid4().hex[:12]}"
        self.progress = GatedProgress()
        self.make_store: Callable[[], JobStore] = lambda: PostgresStore(database)
        self._engine = engine
        self._broker_url = broker
        self._bell: BrokerBell | None = None
        self.worker: WorkerProcess | None = None

    async def start(self, *, embedded: bool = False, **changes: Any) -> WorkerProcess:
        """Start a worker with short times; ``changes`` are worker settings."""
        times = {"beat_s": 0.1, "lease_s": 20.0, "sweep_s": 0.2, "ring_again_s": 30.0, "slots": 2} | changes
        settings = Settings(models={"scenes": MODEL}, worker=WorkerSettings(lanes=(self.lane,), device="cpu", **times))
        broker = make_broker(self._broker_url)
        self._bell = BrokerBell(broker)
        self._bell.start()
        self.worker = WorkerProcess(
            settings,
            self.make_store,
            self.outputs,
            broker,
            self._bell,
            self.progress,
            embedded=embedded,
            engine=self._engine,
        )
        await asyncio.to_thread(self.worker.start)
        return self.worker

    async def stop(self, grace_s: float = 10.0) -> None:
        """Stop the worker and its bell."""
        if self.worker is not None and self._bell is not None:
            await asyncio.to_thread(self.worker.stop, grace_s)
            await asyncio.to_thread(self._bell.stop)

    def ring(self, times: int = 1) -> None:
        """Ring for the lane."""
        assert self._bell is not None
        for _ in range(times):
            self._bell.ring(self.lane)

    async def submit(self, *, ring: bool = True, **changes: Any) -> Job:
        """Submit a small job; ``changes`` are fields of its request."""
        job = await self.store.submit(new_job(self.lane, **changes))
        if ring:
            self.ring()
        return job

    async def wait(self, job_id: UUID, *states: JobState) -> Job:
        """Wait until the job is in one of the states (by default: at its end)."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                job = await self.store.get(job_id)
                if job.state in states or (not states and job.state.terminal):
                    return job
                await asyncio.sleep(0.02)

    async def reached(self) -> None:
        """Wait until the held engine is at a step."""
        assert await asyncio.to_thread(self.progress.reached.wait, TIMEOUT_S)


def new_job(lane: str, **changes: Any) -> NewJob:
    """A job for the small model, with changes to its request."""
    fields: dict[str, Any] = {
        "model": "scenes",
        "prompt": "a red circle",
        "width": 64,
        "height": 64,
        "steps": 3,
        "guidance": 0.0,
        "seed": 1,
    } | changes
    request = JobRequest(**fields)
    exact, seedless = fingerprints(request, MODEL, None)
    return NewJob(
        id=uuid7(),
        request=request,
        lane=lane,
        batch_key=batch_key(request, MODEL),
        fingerprint=exact,
        seedless_fingerprint=seedless,
        price=Decimal("0.01"),
        currency="USD",
    )
