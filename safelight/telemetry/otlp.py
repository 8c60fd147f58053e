"""Spans of OpenTelemetry's SDK, exported over OTLP/HTTP from a thread of their own. Wants ``safelight[otel]``.

Nothing here waits for the collector: spans stand in a bounded queue (2,048, ``OTEL_BSP_MAX_QUEUE_SIZE``), and what
finds no room is dropped.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import uuid4

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    format_span_id,
    format_trace_id,
    set_span_in_context,
)
from opentelemetry.trace import Span as SdkSpan

from safelight import __version__
from safelight.config import TelemetrySettings
from safelight.telemetry.logs import get_logger
from safelight.telemetry.metrics import SPANS
from safelight.telemetry.throttle import Throttle
from safelight.telemetry.traces import Attributes, Kind, Span, Value

_log = get_logger(__name__)

_LIMITS = SpanLimits(max_span_attributes=64, max_attribute_length=512, max_events=32, max_links=8)
_KINDS = {
    "internal": SpanKind.INTERNAL,
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
}


class OtlpTracer:
    """A tracer of this process. It is not OpenTelemetry's global one, which is left to whoever runs the process."""

    def __init__(
        self,
        settings: TelemetrySettings,
        service: str,
        environ: Mapping[str, str],
        exporter: SpanExporter | None = None,
    ) -> None:
        """The default ``exporter`` reads where to export, and how, from ``OTEL_EXPORTER_OTLP_*``."""
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # it logs at length what we tell now and then
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(settings.trace_ratio)),
            resource=Resource.create(_resource(service, environ)),
            shutdown_on_exit=False,  # it would wait for a collector that is away
            span_limits=_LIMITS,
        )
        self._provider.add_span_processor(_Counted())
        self._provider.add_span_processor(BatchSpanProcessor(_Told(exporter or OTLPSpanExporter())))
        self._tracer = self._provider.get_tracer("safelight", __version__)

    def start(self, name: str, kind: Kind, parent: Span | None, attributes: Attributes, at: datetime | None) -> Span:
        """A span that has begun."""
        context = set_span_in_context(NonRecordingSpan(_context_of(parent))) if parent is not None else None
        made = self._tracer.start_span(
            name, context=context, kind=_KINDS[kind], attributes=_known(attributes), start_time=_nanoseconds(at)
        )
        return OtlpSpan(made)

    def stop(self, grace_s: float) -> None:
        """Export what waits, for at most ``grace_s`` seconds."""
        ending = threading.Thread(target=self._provider.shutdown, name="traces-end", daemon=True)
        ending.start()
        ending.join(grace_s)


class OtlpSpan:
    """A span of the SDK's, as the rest of the project knows spans."""

    def __init__(self, span: SdkSpan) -> None:
        self._span = span
        context = span.get_span_context()
        self.trace_id = format_trace_id(context.trace_id)
        self.span_id = format_span_id(context.span_id)
        self.recorded = span.is_recording()
        self.traceparent: str | None = f"00-{self.trace_id}-{self.span_id}-{int(context.trace_flags.sampled):02x}"

    def rename(self, name: str) -> None:
        """Call it ``name``."""
        self._span.update_name(name)

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""
        self._span.set_attributes(_known(attributes))

    def event(self, name: str, attributes: Attributes | None = None) -> None:
        """Note that something happened now."""
        self._span.add_event(name, _known(attributes or {}))

    def fail(self, kind: str) -> None:
        """Mark it as failed."""
        self._span.set_attribute("error.type", kind)
        self._span.set_status(Status(StatusCode.ERROR, kind))

    def end(self, at: datetime | None = None) -> None:
        """It is over."""
        if self._span.is_recording():
            self._span.end(_nanoseconds(at))


class _Counted(SpanProcessor):
    """Counts what is to be exported: what is missing later found no room in the queue."""

    def on_end(self, span: ReadableSpan) -> None:  # noqa: ARG002 - the base's name
        """A span is over."""
        SPANS.labels("ended").inc()


class _Told(SpanExporter):
    """An exporter whose troubles are told now and then, and counted."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._trouble = Throttle()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export a batch; what fails is dropped."""
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # the collector's troubles are not to end the exporting thread
            self._note(len(spans), type(error).__name__)
            return SpanExportResult.FAILURE
        self._note(len(spans), None if result is SpanExportResult.SUCCESS else "refused or out of reach")
        return result

    def shutdown(self) -> None:
        """Let go of the connection."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits here."""
        return self._exporter.force_flush(timeout_millis)

    def _note(self, count: int, trouble: str | None) -> None:
        SPANS.labels("exported" if trouble is None else "failed").inc(count)
        if trouble is not None and self._trouble.due(trouble):
            _log.warning("traces not exported", action="traces.export_failed", error=trouble)
        elif trouble is None and self._trouble.over():
            _log.info("traces are exported again", action="traces.exported_again")


def _resource(service: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Who exports; the environment's own name goes before ours."""
    named = environ.get("OTEL_SERVICE_NAME") or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    own = {"service.version": __version__, "service.instance.id": str(uuid4())}
    return own if named else own | {"service.name": service}


def _context_of(parent: Span) -> SpanContext:
    sampled = (parent.traceparent or "").endswith("-01")
    return SpanContext(
        int(parent.trace_id, 16),
        int(parent.span_id, 16),
        is_remote=not isinstance(parent, OtlpSpan),
        trace_flags=TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT),
    )


def _known(attributes: Attributes) -> dict[str, Value]:
    return {name: value for name, value in attributes.items() if value is not None}


def _nanoseconds(at: datetime | None) -> int | None:
    return None if at is None else int(at.timestamp() * 1_000_000) * 1_000
