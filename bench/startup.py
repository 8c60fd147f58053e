"""How long a start takes, and how much memory each process holds, beside the same picture by a bare diffusers script.

    .venv/bin/python -m bench.startup            # embedded
    SAFELIGHT_STORE=postgresql://… SAFELIGHT_BROKER=amqp://… .venv/bin/python -m bench.startup   # and distributed

The bare script (import, load, one picture) is the limit: no queue can be faster. Prints a table, a JSON line last.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx
import psutil
from rich.console import Console
from rich.progress import track
from rich.table import Table

REPOSITORY = Path(__file__).resolve().parents[1]
PROMPT = "a red circle left of a blue square on a white background"
BARE = f"""
import torch
from diffusers import FluxPipeline
pipe = FluxPipeline.from_pretrained({str(REPOSITORY / "models/scenes-flux")!r}, dtype=torch.float32)
pipe.set_progress_bar_config(disable=True)
pipe({PROMPT!r}, height=128, width=128, num_inference_steps=8, guidance_scale=0.0, max_sequence_length=24)
"""


@dataclass
class Measured:
    """Seconds from the start of a process to a stage, and MiB of resident memory by process once it has rendered."""

    ready_s: float = 0.0
    first_picture_s: float = 0.0
    repeat_ms: float = 0.0
    memory_mib: dict[str, float] = field(default_factory=dict)


def bare() -> float:
    """Seconds of the bare script, from the start of its process."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", BARE], check=True, capture_output=True, cwd=REPOSITORY)
    return time.perf_counter() - begin


@contextmanager
def processes(commands: list[list[str]], environment: dict[str, str]) -> Iterator[list[psutil.Process]]:
    """The safelight processes of ``commands``, stopped by SIGTERM afterwards."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "safelight", *command],
            cwd=REPOSITORY,
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for command in commands
    ]
    try:
        yield [psutil.Process(process.pid) for process in started]
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(60)


def measure(commands: list[list[str]], environment: dict[str, str], port: int) -> Measured:
    """Start, wait until ready, render one picture, ask for it again, and weigh the processes."""
    result = Measured()
    begin = time.perf_counter()
    with processes(commands, environment) as running, httpx.Client(base_url=f"http://127.0.0.1:{port}") as http:
        _until_ready(http)
        result.ready_s = time.perf_counter() - begin
        seed = time.time_ns() % 2**53  # a seed that no earlier run left in the cache
        job = http.post("/v1/jobs", json={"prompt": PROMPT, "seed": seed}).raise_for_status().json()
        while job["state"] not in ("succeeded", "failed", "dead"):
            time.sleep(0.005)
            job = http.get(f"/v1/jobs/{job['id']}").raise_for_status().json()
        if job["state"] != "succeeded":
            raise SystemExit(f"the picture failed: {job['error']}")
        result.first_picture_s = time.perf_counter() - begin
        begin = time.perf_counter()
        http.post("/v1/jobs", json={"prompt": PROMPT, "seed": seed}).raise_for_status()
        result.repeat_ms = (time.perf_counter() - begin) * 1000
        result.memory_mib = _memory(commands, running, environment)
    return result


def _until_ready(http: httpx.Client, limit_s: float = 180) -> None:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        try:
            if http.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.02)
    raise SystemExit(f"the API was not ready after {limit_s:.0f} s")


def _memory(commands: list[list[str]], running: list[psutil.Process], environment: dict[str, str]) -> dict[str, float]:
    memory = {
        " ".join(command[:1]): process.memory_info().rss / 2**20
        for command, process in zip(commands, running, strict=True)
    }
    home = environment.get("SAFELIGHT_HOME", "\0")
    servers = [p for p in psutil.process_iter(["cmdline"]) if any(home in word for word in p.info["cmdline"] or ())]
    postgres = {p for server in servers if "postgres" in server.name() for p in (server, *server.children())}
    if postgres:
        memory["embedded PostgreSQL (sum of PSS)"] = sum(p.memory_full_info().pss for p in postgres) / 2**20
    return memory


def report(limit_s: float, rows: dict[str, Measured]) -> Table:
    """The table that docs/measurements.md shows."""
    table = Table(title=f"Start and memory; the bare diffusers script took {limit_s:.1f} s")
    for column in ("start", "ready, s", "first picture, s", "times the bare script", "repeat, ms", "memory, MiB"):
        table.add_column(column, justify="left" if column in ("start", "memory, MiB") else "right")
    for name, row in rows.items():
        memory = ", ".join(f"{process} {mib:.0f}" for process, mib in row.memory_mib.items())
        ratio = row.first_picture_s / limit_s
        table.add_row(
            name, f"{row.ready_s:.1f}", f"{row.first_picture_s:.1f}", f"{ratio:.2f}", f"{row.repeat_ms:.0f}", memory
        )
    return table


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--port", type=int, default=18080, help="the port that the API listens on meanwhile")
    port = arguments.parse_args().port
    rows: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory() as home:
        embedded = {
            "SAFELIGHT_HOME": home,
            "SAFELIGHT_STORE": "embedded",
            "SAFELIGHT_BROKER": "memory",
            "SAFELIGHT_OUTPUTS": "",
        }
        runs = [("embedded, cold", ["up"], embedded), ("embedded, warm", ["up"], embedded)]
        limit_s = bare()
        for name, command, environment in track(runs, "Starting", console=Console(stderr=True)):
            rows[name] = measure([[*command, "--port", str(port)]], environment, port)
        if "SAFELIGHT_STORE" in os.environ and "SAFELIGHT_BROKER" in os.environ:
            commands = [["api", "--port", str(port)], ["worker", "--metrics-port", "0"]]
            places = {"SAFELIGHT_OUTPUTS": Path(home, "shared").as_uri()}
            rows["distributed"] = measure(commands, places, port)
    Console().print(report(limit_s, rows))
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    print(
        json.dumps({"machine": machine, "bare_s": limit_s, "runs": {name: asdict(row) for name, row in rows.items()}})
    )


if __name__ == "__main__":
    main()
