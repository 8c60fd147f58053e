"""Traces: one from the client's request through the queue to the denoising steps. docs/tracing.md draws it.

Nothing of OpenTelemetry is imported here. Where no tracer was started a span does nothing, but the W3C trace context of
a client still goes with its job and into the logs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Literal, Protocol

from safelight.config import TelemetrySettings
from safelight.telemetry.secrecy import is_secret

Kind = Literal["internal", "server", "client", "producer", "consumer"]
Value = str | int | float | bool
Attributes = Mapping[str, Value | None]  # what is None is left out

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?")
_LONGEST_TRACEPARENT = 128
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class Span(Protocol):
    """A piece of work under way. Safe to use from any thread; what is told after its end is lost."""

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits; empty where there is no trace."""

    @property
    def span_id(self) -> str:
        """16 hexadecimal digits; empty where there is no trace."""

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context that makes others its children; None where there is no trace."""

    @property
    def recorded(self) -> bool:
        """True when it will be exported, as far as it is known."""

    def rename(self, name: str) -> None:
        """Call it ``name``."""

    def set(self, attributes: Attributes) -> None:
        """Add attributes. Never a prompt, a secret, or what is as long as a picture."""

    def event(self, name: str, attributes: Attributes | None = None) -> None:
        """Note that something happened now."""

    def fail(self, kind: str) -> None:
        """Mark it as failed. ``kind`` is an error's code or class: messages may quote what a client sent."""

    def end(self, at: datetime | None = None) -> None:
        """It is over, now or at ``at``."""


class Carried:
    """A trace context that came from elsewhere: a span that is not ours to write."""

    recorded = False

    def __init__(self, trace_id: str = "", span_id: str = "", *, sampled: bool = False) -> None:
        self.trace_id = trace_id
        self.span_id = span_id
        self.sampled = sampled

    @property
    def traceparent(self) -> str | None:
        """As it is sent."""
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}" if self.trace_id else None

    def rename(self, name: str) -> None:
        """Nothing."""

    def set(self, attributes: Attributes) -> None:
        """Nothing."""

    def event(self, name: str, attributes: Attributes | None = None) -> None:
        """Nothing."""

    def fail(self, kind: str) -> None:
        """Nothing."""

    def end(self, at: datetime | None = None) -> None:
        """Nothing."""


class Tracer(Protocol):
    """Makes spans and has them exported beside the work."""

    def start(self, name: str, kind: Kind, parent: Span | None, attributes: Attributes, at: datetime | None) -> Span:
        """A span that has begun, now or at ``at``; without a parent it begins a trace."""

    def stop(self, grace_s: float) -> None:
        """Export what waits, for at most ``grace_s`` seconds."""


NOTHING = Carried()
_current: ContextVar[Span] = ContextVar("safelight_span", default=NOTHING)
_tracer: Tracer | None = None


def tracing() -> bool:
    """True where spans are made: without, nobody reads what is put together for one."""
    return _tracer is not None


def current() -> Span:
    """The span of the work under way."""
    return _current.get()


def parse_traceparent(text: str | None) -> Carried | None:
    """The trace context of a ``traceparent`` header (https://www.w3.org/TR/trace-context/); None if it isn't one."""
    if text is None or len(text) > _LONGEST_TRACEPARENT:
        return None
    found = _TRACEPARENT.fullmatch(text)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return Carried(trace_id, span_id, sampled=bool(int(flags, 16) & 1))


def begin(
    name: str,
    *,
    kind: Kind = "internal",
    parent: Span | str | None = None,
    attributes: Attributes | None = None,
    at: datetime | None = None,
) -> Span:
    """A span for whoever ends it. Its parent is what is given (a ``traceparent`` does), else the current span."""
    given = parse_traceparent(parent) if isinstance(parent, str) else parent
    above = given or _current.get()
    if _tracer is None:
        return above if isinstance(above, Carried) else NOTHING
    return _tracer.start(name, kind, above if above.trace_id else None, attributes or {}, at)


@contextmanager
def span(
    name: str, *, kind: Kind = "internal", parent: Span | str | None = None, attributes: Attributes | None = None
) -> Iterator[Span]:
    """A span around the block, current within it. An exception marks it as failed."""
    with during(begin(name, kind=kind, parent=parent, attributes=attributes)) as own:
        try:
            yield own
        except Exception as error:
            own.fail(kind_of(error))
            raise
        finally:
            own.end()


@contextmanager
def during(span: Span) -> Iterator[Span]:
    """Make ``span`` the current one within the block."""
    token = _current.set(span)
    try:
        yield span
    finally:
        _current.reset(token)


def kind_of(error: Exception) -> str:
    """What to call an error: its code where it has one, else its class. Never its message, which may quote a prompt."""
    code = getattr(error, "code", None)
    return code if isinstance(code, str) and code else type(error).__name__


def dimension_attributes(dimensions: Mapping[str, str]) -> dict[str, Value | None]:
    """A job's dimensions as attributes, but those that are named like a secret."""
    return {f"safelight.dim.{name}": value for name, value in dimensions.items() if not is_secret(name)}


def endpoint_set(environ: Mapping[str, str] = os.environ) -> bool:
    """True where the environment says where traces go, and doesn't say that there be none."""
    return (
        any(environ.get(name) for name in _ENDPOINTS)
        and environ.get("OTEL_SDK_DISABLED", "").lower() != "true"
        and environ.get("OTEL_TRACES_EXPORTER", "otlp") != "none"
    )


def start_tracing(
    settings: TelemetrySettings, service: str, grace_s: float = 5.0, environ: Mapping[str, str] = os.environ
) -> Callable[[], None]:
    """Trace from now on, in this process, if the settings and the environment want it; the result ends it.

    Ending takes ``grace_s`` seconds at most. ``service`` names the process where the environment doesn't.
    """
    if settings.traces == "off" or not endpoint_set(environ):
        return _nothing
    from safelight.telemetry.logs import get_logger

    log = get_logger(__name__)
    try:
        from safelight.telemetry.otlp import OtlpTracer
    except ImportError:
        log.warning("no traces: a package is missing; pip install 'safelight[otel]'", action="traces.extra_missing")
        return _nothing
    if environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")) == "grpc":
        log.warning("traces go over OTLP/HTTP (port 4318), not gRPC", action="traces.protocol")
    return use(OtlpTracer(settings, service, environ), grace_s)


def use(tracer: Tracer, grace_s: float = 5.0) -> Callable[[], None]:
    """Make spans with ``tracer`` from now on; the result ends it."""
    global _tracer
    _tracer = tracer

    def stop() -> None:
        global _tracer
        if _tracer is tracer:
            _tracer = None
        tracer.stop(grace_s)

    return stop


def _nothing() -> None:
    """There is nothing to end."""
