"""A collector of traces: takes OTLP over HTTP, as Jaeger and Tempo do, and keeps what it gets."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

LIMIT_S = 30.0
Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Exported:
    """A span as the collector has it. Times are in nanoseconds since 1970; ``service`` is the process's name."""

    service: str
    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    begun: int
    ended: int
    failed: bool
    attributes: dict[str, Value]
    events: tuple[str, ...]


@dataclass(slots=True)
class Collector:
    """What was exported so far."""

    endpoint: str = ""
    bodies: list[bytes] = field(default_factory=list)

    @property
    def spans(self) -> list[Exported]:
        """All spans, in the order of their beginnings."""
        found = [span for body in self.bodies for span in _spans_of(body)]
        return sorted(found, key=lambda span: span.begun)

    def named(self, start: str) -> list[Exported]:
        """Those whose names begin so."""
        return [span for span in self.spans if span.name.startswith(start)]

    def wait(self, name: str, count: int = 1) -> list[Exported]:
        """Those whose names begin so, once there are so many."""
        end = time.monotonic() + LIMIT_S
        while len(found := self.named(name)) < count:
            assert time.monotonic() < end, f"no {count} spans {name!r} among {[span.name for span in self.spans]}"
            time.sleep(0.02)
        return found


@contextmanager
def collector() -> Iterator[Collector]:
    """A collector on a port of its own."""
    kept = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = 200 if self.path == "/v1/traces" else 404
            if status == 200:
                kept.bodies.append(body)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()


def _spans_of(body: bytes) -> Iterator[Exported]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        about = {pair.key: _value(pair.value) for pair in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Exported(
                    service=str(about["service.name"]),
                    name=span.name,
                    kind=span.kind,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    begun=span.start_time_unix_nano,
                    ended=span.end_time_unix_nano,
                    failed=span.status.code == 2,
                    attributes={pair.key: _value(pair.value) for pair in span.attributes},
                    events=tuple(event.name for event in span.events),
                )


def _value(value: AnyValue) -> Value:
    kind = value.WhichOneof("value")
    assert kind is not None
    found: Value = getattr(value, kind)
    return found
