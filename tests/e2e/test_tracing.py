"""One trace from the client's request through the queue to the denoising steps: real processes, a real export."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import Process, Server, free_port
from tests.services.collector import Collector, collector

TRACE = "0af7651916cd43dd8448eb211c80319c"
CLIENT = "b7ad6b7169203331"
HEADERS = {
    "traceparent": f"00-{TRACE}-{CLIENT}-01",
    "x-request-id": "order-17",
    "x-bf-dim-team": "red",
    "x-bf-dim-user": "somebody",
}
SETTINGS = """
store = "sqlite:///jobs.db"
model = "nobody/simulated"
[worker]
device = "simulated:step_s=0.002"
[telemetry.dimensions]
team = 1
"""


class Traced:
    """A server of which everything is kept: what it exports, and after its end its log."""

    def __init__(self, server: Server, kept: Collector, folder: Path) -> None:
        self.server = server
        self.collector = kept
        self.folder = folder
        self.stopped = False

    def stop(self) -> list[dict[str, Any]]:
        """Stop it; its log."""
        if not self.stopped:
            self.stopped = True
            assert self.server.process.stop() == 0
        lines = self.server.process.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


@pytest.fixture
def traced() -> Iterator[Traced]:
    """``safelight up`` with a simulated device, told where traces go by the environment."""
    with collector() as kept, tempfile.TemporaryDirectory(prefix="safelight-test-") as name:
        folder = Path(name)
        (folder / "safelight.toml").write_text(SETTINGS)
        port = free_port()
        environment = {
            "SAFELIGHT_HOME": str(folder / "home"),
            "SAFELIGHT_CONFIG": str(folder / "safelight.toml"),
            "OTEL_EXPORTER_OTLP_ENDPOINT": kept.endpoint,
        }
        process = Process(folder, "up", ["up", "--port", str(port)], environment)
        try:
            traced = Traced(Server(process, port), kept, folder)
            yield traced
            traced.stop()
        finally:
            if process.popen.poll() is None:
                process.kill()


def test_one_trace_holds_request_wait_and_render(traced: Traced) -> None:
    """Each span's parent is right, what waits at the stop is exported, and the log names the same trace."""
    body = {"prompt": "a secret star", "seed": 3, "steps": 20, "size": "256x256"}
    response = traced.server.http.post("/v1/jobs", json=body, headers=HEADERS)
    assert response.headers["x-trace-id"] == TRACE
    job = response.json()["id"]
    assert traced.server.ended(job)["state"] == "succeeded"
    other = traced.server.http.post("/v1/jobs", json=body | {"seed": 4}, headers={"x-bf-dim-team": "blue"})
    traced.server.ended(other.json()["id"])
    scraped = traced.server.http.get("/metrics").text
    log = traced.stop()

    spans = {span.name: span for span in traced.collector.spans if span.trace_id == TRACE}
    request, submit, process = spans["POST /v1/jobs"], spans["send default"], spans["process default"]
    assert (request.parent_id, submit.parent_id) == (CLIENT, request.span_id)
    assert {spans["wait default"].parent_id, process.parent_id} == {submit.span_id}
    parts = ("denoise", "decode", "store pictures", "settle")
    assert {spans[part].parent_id for part in parts} == {process.span_id}
    assert set(spans) == {"POST /v1/jobs", "send default", "wait default", "process default", *parts}
    assert {span.service for span in traced.collector.spans} == {"safelight"}
    assert not any(span.failed for span in spans.values())
    about = process.attributes
    assert (about["safelight.job.id"], about["safelight.steps"], about["safelight.cache"]) == (job, 20, "miss")
    assert (about["safelight.dim.team"], about["safelight.dim.user"]) == ("red", "somebody")
    assert b"secret star" not in b"".join(traced.collector.bodies)

    told = {line["action"]: line for line in log if line.get("trace_id") == TRACE}
    assert {"jobs.accepted", "api.request", "render.claimed", "render.settled"} <= set(told)
    assert told["api.request"]["request_id"] == told["jobs.accepted"]["request_id"] == "order-17"
    for action in ("jobs.accepted", "render.settled"):
        assert told[action]["job_id"] == job
        assert told[action]["dimensions"] == {"team": "red", "user": "somebody"}
    assert told["render.settled"]["span_id"] == process.span_id
    assert "secret star" not in json.dumps(log)

    assert 'safelight_dim_jobs_settled_total{dim_team="red",outcome="succeeded"} 1.0' in scraped
    assert 'safelight_dim_jobs_settled_total{dim_team="_other",outcome="succeeded"} 1.0' in scraped
    assert "somebody" not in scraped
