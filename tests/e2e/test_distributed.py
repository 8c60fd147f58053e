"""Many processes over PostgreSQL and RabbitMQ: jobs spread, and survive the death of their worker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.e2e.processes import REPOSITORY, Process, Server, free_port, wait_for
from tests.services.collector import Collector, collector
from tests.services.postgres import fresh_database

JOBS = 12


class Site:
    """An API process and workers that share a database, a broker and a folder for outputs."""

    def __init__(self, folder: Path, database: str, broker: str, kept: Collector) -> None:
        """Write the settings and start the API. ``kept`` gets the traces."""
        self._folder = folder
        self.collector = kept
        settings = folder / "safelight.toml"
        settings.write_text(
            '[worker]\nslots = 1\ndevice = "simulated:step_s=0.02"\nlease_s = 3.0\nbeat_s = 0.5\nsweep_s = 0.5\n'
            "[jobs]\nmax_steps = 1000\n"
            f'[models.scenes]\nmodel = "{REPOSITORY}/models/scenes-flux"\nfamily = "flux"\ndtype = "float32"\n'
            'steps = 8\nguidance = 0.0\nsizes = ["128x128"]\nmax_sequence_length = 24\nprice = "0.01"\n'
        )
        self._environment = {
            "SAFELIGHT_CONFIG": str(settings),
            "SAFELIGHT_HOME": str(folder / "home"),
            "SAFELIGHT_STORE": database,
            "SAFELIGHT_BROKER": broker,
            "SAFELIGHT_OUTPUTS": (folder / "outputs").as_uri(),
            "OTEL_EXPORTER_OTLP_ENDPOINT": kept.endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": "200",
        }
        self.processes: list[Process] = []
        self.workers: list[tuple[Process, str]] = []
        port = free_port()
        self.server = Server(self._start("api", ["api", "--port", str(port)]), port)

    def worker(self, name: str) -> tuple[Process, str]:
        """A worker process, and the address of its metrics."""
        port = free_port()
        process = self._start(name, ["worker", "--metrics-port", str(port)])
        metrics = f"http://127.0.0.1:{port}/metrics"
        wait_for("the worker's metrics", lambda: process.alive() and _answers(metrics), 90)
        return process, metrics

    def _start(self, name: str, arguments: list[str]) -> Process:
        process = Process(self._folder, name, arguments, self._environment)
        self.processes.append(process)
        return process

    def stop(self) -> list[int]:
        """SIGTERM to all that still run; their exit codes."""
        return [process.stop() for process in self.processes if process.popen.poll() is None]

    def kill(self) -> None:
        """kill -9 whatever is left."""
        for process in self.processes:
            process.kill()


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, migrated: str, rabbitmq_url: str
) -> Iterator[Site]:
    """An API process and two workers; all are gone afterwards."""
    with ExitStack() as stack:
        database = stack.enter_context(fresh_database(postgres_url, migrated))
        kept = stack.enter_context(collector())
        site = Site(tmp_path_factory.mktemp("site"), database, rabbitmq_url, kept)
        stack.callback(site.kill)
        site.workers = [site.worker(name) for name in ("one", "two")]
        yield site


def test_jobs_spread_over_two_workers(site: Site) -> None:
    """Both workers render, and every job is done once."""
    before = [_succeeded(metrics) for _, metrics in site.workers]
    jobs = [site.server.submit(prompt="a red circle", steps=20, cache="off") for _ in range(JOBS)]
    assert {site.server.ended(job["id"])["state"] for job in jobs} == {"succeeded"}
    done = [_succeeded(metrics) - old for (_, metrics), old in zip(site.workers, before, strict=True)]
    assert sum(done) == JOBS
    assert min(done) > 0, done


def test_steps_are_seen_live_across_processes(site: Site) -> None:
    """The worker's steps reach a client of the API process, counting up, before the end."""
    job = site.server.submit(prompt="a blue star", steps=100, cache="off")
    with site.server.http.stream("GET", f"/v1/jobs/{job['id']}/events", timeout=90) as stream:
        text = "".join(stream.iter_text())
    steps = [int(step) for step in re.findall(r'event: progress\ndata: .*?"step": ?(\d+)', text)]
    assert len(steps) > 5
    assert steps == sorted(steps)
    assert text.rstrip().count("event: done") == 1


def test_a_killed_workers_job_is_finished_by_another(site: Site) -> None:
    """kill -9 in mid-render: the lease runs out, the other worker renders it, charged once. All leave on SIGTERM.

    The other worker's attempt is in the trace of the submit. Of the dead one's there is no span: it had no end.
    """
    jobs = [site.server.submit(prompt="a blue star", steps=250, cache="off") for _ in range(2)]

    def both_run() -> bool:
        return all(site.server.job(job["id"])["state"] == "running" for job in jobs)

    wait_for("both workers to render", both_run)
    victim, _metrics = site.workers[0]
    victim.kill()
    ended = [site.server.ended(job["id"]) for job in jobs]
    assert [job["state"] for job in ended] == ["succeeded"] * 2
    assert [job["cost"]["charged"] for job in ended] == ["0.01"] * 2
    assert sorted(job["attempts"] for job in ended) == [1, 1]
    assert set(site.stop()) == {0}
    for job in jobs:
        about = [span for span in site.collector.spans if span.attributes.get("safelight.job.id") == job["id"]]
        [send] = [span for span in about if span.name == "send default"]
        attempts = [span for span in about if span.service == "safelight-worker"]
        assert {(span.trace_id, span.parent_id) for span in attempts} == {(send.trace_id, send.span_id)}
        assert sorted({span.name for span in attempts}) == ["process default", "wait default"]
        assert sum(span.name == "process default" for span in attempts) == 1


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


def _succeeded(metrics: str) -> float:
    lines = re.findall(
        r'^safelight_jobs_finished_total\{[^}]*state="succeeded"[^}]*\} (\S+)', httpx.get(metrics).text, re.M
    )
    return sum(float(value) for value in lines)
