"""Real processes of the command, started, watched and killed by the end-to-end tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import httpx
import psutil

REPOSITORY = Path(__file__).resolve().parents[2]
START_LIMIT_S = 120.0

T = TypeVar("T")


def wait_for(what: str, probe: Callable[[], T | None], limit_s: float = 60.0) -> T:
    """The first truthy answer of ``probe``; fails the test with ``what`` after ``limit_s`` seconds."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        answer = probe()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"waited {limit_s:.0f} s in vain for {what}")


def free_port() -> int:
    """A port on loopback that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """One ``safelight`` process; its output goes to ``log``."""

    def __init__(self, folder: Path, name: str, arguments: list[str], environment: dict[str, str]) -> None:
        """Start ``python -m safelight ARGUMENTS``."""
        self.log = folder / f"{name}.log"
        self._stream: IO[bytes] = self.log.open("wb")
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "safelight", *arguments],
            cwd=REPOSITORY,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            stdin=subprocess.DEVNULL,
            stdout=self._stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def kill(self) -> None:
        """kill -9: the process itself, nothing that it started."""
        self.popen.kill()
        self.popen.wait(30)

    def stop(self, limit_s: float = 60.0) -> int:
        """SIGTERM; the exit code. A process that won't leave is killed, and the test fails."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
        try:
            return self.popen.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the process did not leave after SIGTERM:\n{self.tail()}") from None
        finally:
            self._stream.close()

    def alive(self) -> bool:
        """True while it runs; fails the test with its last words when it does not."""
        if self.popen.poll() is not None:
            raise AssertionError(f"the process left with {self.popen.returncode}:\n{self.tail()}")
        return True

    def tail(self) -> str:
        """The last lines of its output."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-40:])


class Server:
    """A process that serves the API, and a client for it."""

    def __init__(self, process: Process, port: int) -> None:
        """Wait until ``process`` is ready on ``port``."""
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=self.url, timeout=30)
        wait_for("the API to be ready", self._ready, START_LIMIT_S)

    def _ready(self) -> bool:
        self.process.alive()
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def submit(self, **fields: object) -> dict[str, Any]:
        """The job that a submit with ``fields`` made."""
        response = self.http.post("/v1/jobs", json=fields)
        assert response.status_code in (200, 202), response.text
        return dict(response.json())

    def job(self, job_id: object) -> dict[str, Any]:
        """The job as the API tells it now."""
        return dict(self.http.get(f"/v1/jobs/{job_id}").raise_for_status().json())

    def ended(self, job_id: object, limit_s: float = 90.0) -> dict[str, Any]:
        """The job once it is at its end."""

        def probe() -> dict[str, Any] | None:
            job = self.job(job_id)
            return job if job["state"] in ("succeeded", "failed", "canceled", "dead") else None

        return wait_for(f"job {job_id} to end", probe, limit_s)


def leftovers(marker: str) -> list[str]:
    """Command lines of running processes that name ``marker`` (a folder of the test's own)."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if marker in line and process.pid != os.getpid() and "pytest" not in line:
            found.append(line)
    return found
