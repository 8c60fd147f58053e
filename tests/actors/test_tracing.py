"""A job's trace in the worker: its wait, each attempt, and what an attempt is made of."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence

import msgspec
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from actors.engine import StepProgress
from actors.engine.errors import EngineError
from jobstore.job import Job
from safelight.config import TelemetrySettings
from safelight.telemetry import traces
from safelight.telemetry.otlp import OtlpTracer
from tests.actors.harness import Darkroom, new_job
from tests.actors.standin import StandInEngine
from tests.services.collector import Collector, collector

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture
def collected() -> Iterator[Collector]:
    """What this process exports."""
    with collector() as kept:
        exporter = OTLPSpanExporter(endpoint=f"{kept.endpoint}/v1/traces")
        stop = traces.use(OtlpTracer(TelemetrySettings(), "tests", {}, exporter))
        yield kept
        stop()


async def submit(room: Darkroom, traceparent: str | None = SAMPLED, **changes: object) -> Job:
    """A job that came with a trace context."""
    new = msgspec.structs.replace(
        new_job(room.lane, **changes), traceparent=traceparent, dimensions={"team": "a", "password": "hunter2"}
    )
    job = await room.store.submit(new)
    room.ring()
    return job


def flush() -> None:
    """Export what waits."""
    tracer = traces._tracer
    assert isinstance(tracer, OtlpTracer)
    tracer._provider.force_flush()


async def test_each_attempt_is_a_span_of_the_submit_s_trace(
    room: Darkroom, standin: StandInEngine, collected: Collector
) -> None:
    """A failed attempt and the one that mends it: two waits, two renders, one trace, one parent."""
    await room.start()
    job = await submit(room, prompt="a secret circle", steps=20)
    standin.fail(await asyncio.to_thread(standin.taken, 1), EngineError("a secret circle could not be drawn"))
    handle = await asyncio.to_thread(standin.taken, 2)
    for step in range(1, 21):
        assert handle.watch.on_progress is not None
        handle.watch.on_progress(StepProgress(step, 20))
    standin.finish(handle)
    await room.wait(job.id)
    await room.stop()
    flush()
    first, second = collected.named("process")
    assert {span.trace_id for span in collected.spans} == {TRACE}
    assert [span.parent_id for span in (first, second, *collected.named("wait"))] == [PARENT] * 4
    assert (first.failed, first.attributes["error.type"], first.attributes["safelight.job.state"]) == (
        True,
        "render_failed",
        "scheduled",
    )
    assert (second.failed, second.attributes["safelight.job.state"]) == (False, "succeeded")
    assert [span.attributes["safelight.job.attempt"] for span in (first, second)] == [1, 2]
    assert (second.attributes["safelight.dim.team"], second.attributes["safelight.device_seconds"]) == ("a", 0.5)
    failed, steps = collected.named("denoise")
    assert (failed.failed, failed.parent_id, steps.parent_id) == (True, first.span_id, second.span_id)
    assert 0 < len(steps.events) <= 9
    [decode], [stored] = collected.named("decode"), collected.named("store pictures")
    assert {decode.parent_id, stored.parent_id} == {second.span_id}
    waits = collected.named("wait")
    assert all(wait.begun <= wait.ended for wait in waits)
    assert waits[0].ended <= waits[1].begun
    told = b"".join(collected.bodies)
    assert b"secret circle" not in told
    assert b"hunter2" not in told


async def test_a_worker_that_goes_leaves_a_span_and_the_next_one_goes_on_in_the_trace(
    room: Darkroom, standin: StandInEngine, collected: Collector
) -> None:
    """Handed back at a stop, rendered by another worker."""
    await room.start()
    job = await submit(room)
    await asyncio.to_thread(standin.taken, 1)
    await room.stop(grace_s=0.0)
    await room.start()
    standin.finish(await asyncio.to_thread(standin.taken, 2))
    await room.wait(job.id)
    await room.stop()
    flush()
    spans = collected.named("process")
    assert [span.attributes["safelight.outcome"] for span in spans] == ["handed_back", "rendered"]
    assert {(span.trace_id, span.parent_id) for span in spans} == {(TRACE, PARENT)}
    assert len({span.attributes["safelight.worker.id"] for span in spans}) == 2
    assert len(collected.named("wait")) == 2


async def test_a_request_that_is_not_sampled_leaves_nothing(
    room: Darkroom, standin: StandInEngine, collected: Collector
) -> None:
    """The client's decision holds in the worker."""
    await room.start()
    job = await submit(room, SAMPLED.removesuffix("01") + "00")
    standin.finish(await asyncio.to_thread(standin.taken, 1))
    await room.wait(job.id)
    await room.stop()
    flush()
    assert collected.spans == []


class Stuck(SpanExporter):
    """A collector that doesn't answer."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.let_go = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Wait."""
        self.reached.set()
        self.let_go.wait(30)
        return SpanExportResult.FAILURE


async def test_a_collector_that_does_not_answer_holds_nothing_up(room: Darkroom, standin: StandInEngine) -> None:
    """More spans than the queue holds, a job meanwhile, and a stop: all return while an export hangs."""
    stuck = Stuck()
    stop = traces.use(OtlpTracer(TelemetrySettings(), "tests", {}, stuck), grace_s=0.05)
    try:
        await room.start()
        for _ in range(5_000):
            traces.begin("many").end()
        assert await asyncio.to_thread(stuck.reached.wait, 20)
        job = await submit(room)
        standin.finish(await asyncio.to_thread(standin.taken, 1))
        assert (await room.wait(job.id)).state == "succeeded"
        stop()
        assert not stuck.let_go.is_set()
    finally:
        stuck.let_go.set()
