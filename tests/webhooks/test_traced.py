"""A delivery's span hangs in its job's trace, and tells no secret."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from actors.webhooks.courier import Courier
from jobstore.job import JobWebhook
from jobstore.postgres.store import PostgresStore
from jobstore.webhooks.model import ENDINGS, DeliveryFilter
from jobstore.webhooks.signing import make_secret
from safelight.config import TelemetrySettings
from safelight.telemetry import traces
from safelight.telemetry.otlp import OtlpTracer
from tests.contract.making import new_job, new_worker, rendered
from tests.webhooks.receiver import Receiver

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SECRET = make_secret()


class Kept:
    """What this process traced."""

    def __init__(self) -> None:
        self._memory = InMemorySpanExporter()
        self._tracer = OtlpTracer(TelemetrySettings(), "tests", {}, self._memory)
        self.stop = traces.use(self._tracer)

    def spans(self) -> Sequence[ReadableSpan]:
        """All spans that are over, in the order in which they ended."""
        self._tracer._provider.force_flush()
        return self._memory.get_finished_spans()


@pytest.fixture
def kept() -> Iterator[Kept]:
    """Spans are kept here."""
    kept = Kept()
    yield kept
    kept.stop()


async def submit(store: PostgresStore, url: str, sampled: bool = True) -> str:
    """The id of a traced job with a webhook of its own."""
    hook = JobWebhook(url=f"{url}/done?token=hunter2", origin=url, events=ENDINGS, signed=True)
    traceparent = f"00-{TRACE}-{PARENT}-{'01' if sampled else '00'}"
    new = msgspec.structs.replace(new_job(), webhook=hook, webhook_secret=SECRET, traceparent=traceparent)
    return str((await store.submit(new)).id)


async def deliver(courier: Courier) -> None:
    """Try all that is due."""
    await courier.look()
    await courier.idle()


async def test_each_try_is_a_span_of_the_jobs_trace(
    store: PostgresStore, courier: Courier, hook: Receiver, kept: Kept
) -> None:
    """Beside the renders: the failed one says with which status, and none holds what the URL or the signature hides."""
    hook.answers = [(503, {}), (204, {})]
    job_id = await submit(store, hook.url)
    await rendered(store, new_worker())
    await deliver(courier)
    [waiting] = (await store.deliveries(DeliveryFilter(all_keys=True))).deliveries
    await store.redeliver(waiting.id)
    await deliver(courier)
    failed, delivered = kept.spans()
    for span in (failed, delivered):
        assert (span.name, span.kind) == ("deliver webhook", SpanKind.CLIENT)
        assert span.context is not None
        assert span.parent is not None
        assert f"{span.context.trace_id:032x}" == TRACE
        assert f"{span.parent.span_id:016x}" == PARENT
    told = [dict(span.attributes or {}) for span in (failed, delivered)]
    assert [one["http.response.status_code"] for one in told] == [503, 204]
    assert [one["safelight.outcome"] for one in told] == ["retried", "delivered"]
    assert [one["safelight.delivery.attempt"] for one in told] == [1, 2]
    assert {(one["safelight.job.id"], one["safelight.webhook.type"]) for one in told} == {(job_id, "job.succeeded")}
    assert (told[0]["error.type"], "error.type" in told[1]) == ("503", False)
    assert not any(word in str(told) for word in ("hunter2", "/done", SECRET))


async def test_no_answer_is_told_as_such(store: PostgresStore, courier: Courier, kept: Kept) -> None:
    """With no words of the network's: they may name what is nobody's business."""
    await submit(store, "http://127.0.0.1:1")
    await rendered(store, new_worker())
    await deliver(courier)
    [span] = kept.spans()
    told = dict(span.attributes or {})
    assert (told["error.type"], told["safelight.outcome"]) == ("no_answer", "retried")
    assert "http.response.status_code" not in told


async def test_a_job_whose_client_wants_no_trace_has_none(
    store: PostgresStore, courier: Courier, hook: Receiver, kept: Kept
) -> None:
    """Its webhook comes all the same."""
    await submit(store, hook.url, sampled=False)
    await rendered(store, new_worker())
    await deliver(courier)
    assert len(hook.received) == 1
    assert kept.spans() == ()
