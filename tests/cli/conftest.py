"""One embedded Safelight for all tests of the commands that talk to one."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from safelight.cli import consoles
from tests.cli.running import Embedded, write_settings
from tests.e2e.processes import Process, Server, free_port, leftovers


@pytest.fixture(autouse=True)
def fresh_consoles() -> None:
    """A console keeps the width of the terminal it was made for, which is each test's own."""
    consoles._console.cache_clear()


@pytest.fixture
def cli() -> CliRunner:
    """Runs commands inside this process."""
    return CliRunner(env={"COLUMNS": "200", "SAFELIGHT_KEY": ""})


@pytest.fixture(scope="session")
def embedded() -> Iterator[Embedded]:
    """``safelight up`` in a folder of its own; at the end it gets Ctrl-C and must leave nothing behind."""
    with tempfile.TemporaryDirectory(prefix="safelight-") as name:
        folder = Path(name)
        environment = write_settings(folder, device="simulated")
        port = free_port()
        process = Process(folder, "up", ["up", "--port", str(port)], environment)
        try:
            yield Embedded(Server(process, port), folder, environment)
            os.killpg(process.popen.pid, signal.SIGINT)
            assert process.popen.wait(60) == 0, process.tail()
            assert leftovers(name) == []
        finally:
            process.kill()


@pytest.fixture
def settings(place: Path) -> dict[str, str]:
    """The environment of a Safelight that has never been started."""
    return write_settings(place)
