"""A request's trace: the client's where it sends one, and what of it goes with the job."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from uuid import UUID

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from safelight.config import TelemetrySettings
from safelight.telemetry import traces
from safelight.telemetry.otlp import OtlpTracer
from tests.api.site import LIMIT_S, Driver, Site

TRACE = "0af7651916cd43dd8448eb211c80319c"
CLIENT = f"00-{TRACE}-b7ad6b7169203331-01"
UNSAMPLED = CLIENT.removesuffix("01") + "00"
JOB = {"prompt": "a secret star", "seed": 3, "dimensions": {"team": "a"}}


class Traced:
    """A tracer whose spans are kept here."""

    def __init__(self, ratio: float) -> None:
        self.memory = InMemorySpanExporter()
        self.tracer = OtlpTracer(TelemetrySettings(trace_ratio=ratio), "tests", {}, self.memory)
        self.stop = traces.use(self.tracer)

    def finished(self, requests: int) -> Sequence[ReadableSpan]:
        """All spans, once those of so many requests are over: they end just after the answer."""
        end = time.monotonic() + LIMIT_S
        while True:
            self.tracer._provider.force_flush()
            found = self.memory.get_finished_spans()
            if sum(span.kind is SpanKind.SERVER for span in found) >= requests:
                return found
            assert time.monotonic() < end, found
            time.sleep(0.01)

    def spans(self) -> dict[str, tuple[str, str, str]]:
        """Trace, own and parent's id by name, after one request."""
        found = {}
        for span in self.finished(1):
            context = span.context
            assert context is not None
            parent = f"{span.parent.span_id:016x}" if span.parent else ""
            found[span.name] = (f"{context.trace_id:032x}", f"{context.span_id:016x}", parent)
        return found


@pytest.fixture
def traced() -> Iterator[Traced]:
    """Every request is traced."""
    traced = Traced(1.0)
    yield traced
    traced.stop()


@pytest.fixture
def untraced() -> Iterator[Traced]:
    """No request is traced but those whose clients want it."""
    traced = Traced(0.0)
    yield traced
    traced.stop()


def traceparent_of(site: Site, response: httpx.Response) -> str | None:
    """What the job carries to its worker."""
    return site.call(site.services.store.get(UUID(response.json()["id"]))).traceparent


def test_the_job_carries_the_submit_s_span(site: Site, http: httpx.Client, traced: Traced) -> None:
    """Client, request, submit: one trace, each the parent of the next; the answer tells the trace."""
    response = http.post("/v1/jobs", json=JOB, headers={"traceparent": CLIENT})
    assert response.status_code == 202
    assert response.headers["x-trace-id"] == TRACE
    spans = traced.spans()
    request, submit = spans["POST /v1/jobs"], spans["send default"]
    assert (request[0], request[2]) == (TRACE, "b7ad6b7169203331")
    assert (submit[0], submit[2]) == (TRACE, request[1])
    assert traceparent_of(site, response) == f"00-{TRACE}-{submit[1]}-01"


@pytest.mark.parametrize("header", ["", "nonsense", f"00-{'0' * 32}-b7ad6b7169203331-01", "x" * 9000])
def test_a_header_that_is_no_trace_context_begins_a_new_trace(http: httpx.Client, traced: Traced, header: str) -> None:
    """It is no error either: the standard says so."""
    response = http.post("/v1/jobs", json=JOB, headers={"traceparent": header})
    assert response.status_code == 202
    request = traced.spans()["POST /v1/jobs"]
    assert (len(request[0]), request[2]) == (32, "")


def test_a_hit_and_a_refusal_are_traced_too(site: Site, http: httpx.Client, worker: Driver, traced: Traced) -> None:
    """What needs no worker, and what is not accepted; nothing of the prompt is told."""
    assert http.post("/v1/jobs", json=JOB).status_code == 202
    worker.render()
    assert http.post("/v1/jobs", json=JOB).json()["cache"] == "hit"
    assert http.post("/v1/jobs", json={"prompt": "a secret star", "seed": "one"}).status_code == 400
    assert http.get("/livez").status_code == 200
    spans = traced.finished(3)
    assert [span.name for span in spans if span.name.startswith("send")] == ["send default"] * 2
    statuses = [dict(span.attributes or {}).get("http.response.status_code") for span in spans]
    assert [status for status in statuses if status] == [202, 200, 400]
    assert "secret star" not in "".join(span.to_json() for span in spans)


def test_a_share_of_requests_is_traced_and_clients_decide_for_theirs(
    site: Site, http: httpx.Client, untraced: Traced
) -> None:
    """What is not sampled is passed on as not sampled."""
    own = http.post("/v1/jobs", json=JOB)
    assert "x-trace-id" not in own.headers
    assert str(traceparent_of(site, own)).endswith("-00")
    assert http.post("/v1/jobs", json=JOB | {"seed": 4}, headers={"traceparent": CLIENT}).headers["x-trace-id"] == TRACE
    assert set(untraced.spans()) == {"POST /v1/jobs", "send default"}


def test_without_a_tracer_the_client_s_context_goes_with_the_job(site: Site, http: httpx.Client) -> None:
    """A worker elsewhere may trace."""
    for sent in (CLIENT, UNSAMPLED):
        response = http.post("/v1/jobs", json=JOB, headers={"traceparent": sent})
        assert traceparent_of(site, response) == sent
    assert traceparent_of(site, http.post("/v1/jobs", json=JOB)) is None
