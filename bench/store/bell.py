"""From a submit to the start of the render in an idle worker: commit, bell, broker, Dramatiq, claim."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from pathlib import Path

import msgspec
from rich.progress import Progress

from actors.bell import BrokerBell
from actors.broker import make_broker
from actors.progress import make_progress_channel
from actors.worker import WorkerProcess
from bench.store.jobs import new_job
from jobstore.fingerprint import batch_key
from jobstore.job import JobState
from jobstore.outputs import open_outputs
from jobstore.postgres.store import PostgresStore
from safelight.config import ModelSettings, Settings, WorkerSettings

_PAUSE_S = 0.25  # a render of 8 ms, and time to be idle again


def measure(url: str, broker_url: str, jobs: int, progress: Progress) -> list[float]:
    """Seconds from submit to start, by the database's clock, of one job after the other."""
    lane = f"bench{uuid.uuid4().hex[:8]}"
    settings = Settings(
        models={"scenes": _model(lane)},
        worker=WorkerSettings(lanes=(lane,), device="simulated:step_s=0.001", slots=1, metrics_port=0),
    )
    broker = make_broker(broker_url)
    bell = BrokerBell(broker)
    channel = make_progress_channel("memory")
    with tempfile.TemporaryDirectory() as folder:
        outputs = open_outputs(Path(folder).as_uri())
        worker = WorkerProcess(settings, lambda: PostgresStore(url), outputs, broker, bell, channel)
        bell.start()
        worker.start()
        try:
            return asyncio.run(_submit_all(url, lane, bell, jobs, progress))
        finally:
            worker.stop(5.0)
            bell.stop()
            broker.close()


def _model(lane: str) -> ModelSettings:
    return ModelSettings(model="/nowhere/simulated", family="flux", sizes=("128x128",), lane=lane)


async def _submit_all(url: str, lane: str, bell: BrokerBell, jobs: int, progress: Progress) -> list[float]:
    store = PostgresStore(url, max_connections=2)
    await store.open()
    task = progress.add_task("bell to start", total=jobs)
    seconds = []
    try:
        for number in range(-5, jobs):  # the first ones open connections
            new = new_job(10**8 + number, lane)
            key = batch_key(new.request, _model(lane))
            job = await store.submit(msgspec.structs.replace(new, batch_key=key))
            bell.ring(lane)
            await asyncio.sleep(_PAUSE_S)
            job = await store.get(job.id)
            if job.state is not JobState.SUCCEEDED or job.started_at is None:
                raise RuntimeError(f"a job on an idle worker is {job.state} after {_PAUSE_S} s")
            if number >= 0:
                seconds.append((job.started_at - job.created_at).total_seconds())
                progress.advance(task)
    finally:
        await store.close()
    return seconds
