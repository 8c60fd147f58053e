"""The servers that are measured, each in a process of its own, and wrk, which loads them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

_SCRIPT = Path(__file__).with_name("load.lua")


@dataclass(frozen=True, slots=True)
class Load:
    """What wrk saw of one run. ``failed`` were answered with an error, or not at all."""

    requests: int
    seconds: float
    failed: int
    p50_ms: float
    p99_ms: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


@contextmanager
def serving(command: list[str], ready: str, environment: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Address and process id of a server that ``command`` starts, until the block ends; ``PORT`` is a free one."""
    port = _free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", *(part.replace("PORT", str(port)) for part in command)],
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(address + ready, process)
        yield address, process.pid
    finally:
        process.terminate()
        process.wait(30)


def load(url: str, run: str, *, seconds: int, connections: int, key: str = "", ids: Path | None = None) -> Load:
    """Load a URL with one thread of wrk. ``ids`` is where the ids of accepted jobs go, with the thread's number."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(_SCRIPT), url, "--", run]
    command += [] if ids is None else [str(ids)]
    try:
        printed = subprocess.run(
            command, env=os.environ | {"BENCH_KEY": key}, capture_output=True, text=True, check=True
        ).stdout
    except FileNotFoundError:
        raise SystemExit("wrk is missing: install it (Debian: apt-get install wrk)") from None
    result = next(line for line in printed.splitlines() if line.startswith("RESULT "))
    return Load(**json.loads(result.removeprefix("RESULT ")))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(url, timeout=1).status_code < 500:
                return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise SystemExit(f"nothing answers at {url}")
