"""A drain that is asked for over HTTP, from the question to the end of ``safelight worker``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from actors.worker import WorkerProcess
from jobstore.job import JobState
from jobstore.outputs import Outputs
from safelight.cli.app import app
from safelight.config import Settings
from tests.actors.harness import Darkroom
from tests.actors.standin import StandInEngine
from tests.api.site import Site
from tests.cli.running import write_settings

URLS = {"SAFELIGHT_STORE": "postgresql://127.0.0.1/elsewhere", "SAFELIGHT_BROKER": "amqp://127.0.0.1:1"}


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[WorkerProcess], int]:
    """``safelight worker``, off the main thread, around a worker that is started already; its exit code."""
    monkeypatch.setattr("safelight.cli.server.worker._HEALTH_EVERY_S", 0.05)
    monkeypatch.setattr("safelight.cli.server.stopping.signal.signal", lambda *_: None)  # the main thread's alone
    monkeypatch.setattr("safelight.cli.server.logs.configure_for", lambda *_, **__: None)
    environment = write_settings(tmp_path) | URLS

    def run(process: WorkerProcess) -> int:
        def started(_settings: Settings, stack: ExitStack) -> WorkerProcess:
            stack.callback(process.stop)
            return process

        monkeypatch.setattr("safelight.cli.server.worker.start_worker", started)
        return CliRunner(env=environment).invoke(app, ["worker", "--metrics-port", "0"]).exit_code

    return run


async def test_a_drained_worker_finishes_what_it_has_and_ends_with_0(
    room: Darkroom, database: str, outputs: Outputs, standin: StandInEngine, command: Callable[[WorkerProcess], int]
) -> None:
    """It takes no more, though it has a slot for it and bells ring; then it is off the list."""
    process = await room.start(slots=2)
    held = await room.submit()
    handle = await asyncio.to_thread(standin.taken, 1)
    with Site(database, outputs).serve() as site:

        async def ask(method: str, path: str = "") -> Any:
            answer = await asyncio.to_thread(httpx.request, method, f"{site.url}/v1/workers{path}", timeout=20)
            return answer.json()

        ended = asyncio.create_task(asyncio.to_thread(command, process))
        assert (await ask("POST", f"/{process.id}/drain"))["state"] == "draining"
        waiting = await room.submit(seed=2)
        room.ring(3)
        [told] = (await ask("GET"))["data"]
        assert (told["state"], told["held"], ended.done()) == ("draining", 1, False)
        standin.finish(handle)
        assert await asyncio.wait_for(ended, 20) == 0
        assert (await ask("GET"))["data"] == []
    assert (await room.wait(held.id)).state is JobState.SUCCEEDED
    assert (await room.store.get(waiting.id)).state is JobState.QUEUED
    assert len(standin.handles) == 1
