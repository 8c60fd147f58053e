"""A request's place in a trace: the client's, if it sends one, else the first of its own."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from jobstore.job import Job, NewJob
from safelight.telemetry import traces
from safelight.telemetry.traces import NOTHING, Span, dimension_attributes

_UNTRACED = nullcontext(NOTHING)
_TRACED = "/v1/"  # the API: pages, probes and scrapes would drown it


def request_span(scope: Any, method: str, request_id: str) -> AbstractContextManager[Span]:
    """The span around a request, current within it; ``note_answer`` tells it how it went."""
    if not scope["path"].startswith(_TRACED):
        return _UNTRACED
    if not traces.tracing():
        parent = _traceparent(scope)
        return _UNTRACED if parent is None else traces.during(traces.begin(method, parent=parent))
    attributes = {
        "http.request.method": method,
        "url.path": scope["path"][:200],
        "url.scheme": scope["scheme"],
        "safelight.request_id": request_id,
    }
    return traces.span(method, kind="server", parent=_traceparent(scope), attributes=attributes)


def note_answer(span: Span, method: str, route: str | None, status: int) -> None:
    """How a request was answered; ``status`` 0 where nobody waited for the answer."""
    if not span.recorded:
        return
    if route:
        span.rename(f"{method} {route}")
    span.set({"http.route": route, "http.response.status_code": status or None})
    if status >= 500:
        span.fail(str(status))


def submit_span(new: NewJob) -> AbstractContextManager[Span]:
    """The span around a submit: what its job's waits and renders are children of, in whatever process."""
    if not traces.tracing():
        return nullcontext(traces.current())
    return traces.span(
        f"send {new.lane}",
        kind="producer",
        attributes={
            "messaging.system": "safelight",
            "messaging.operation.type": "send",
            "messaging.operation.name": "send",
            "messaging.destination.name": new.lane,
            "safelight.model": new.request.model,
            "safelight.key_id": str(new.key_id) if new.key_id else None,
            "safelight.team": new.team,
            **dimension_attributes(new.dimensions),
        },
    )


def note_job(span: Span, job: Job, *, replayed: bool) -> None:
    """Which job a submit got, and why."""
    if not span.recorded:
        return
    span.set(
        {
            "messaging.message.id": str(job.id),
            "safelight.job.id": str(job.id),
            "safelight.job.state": job.state.value,
            "safelight.cache": job.cache.value,
            "safelight.leader_id": str(job.leader_id) if job.leader_id else None,
            "safelight.replayed": replayed,
        }
    )


def _traceparent(scope: Any) -> str | None:
    """The client's trace context. Sent twice it means nothing, the standard says."""
    given = [value for name, value in scope["headers"] if name == b"traceparent"]
    return given[0].decode("latin-1") if len(given) == 1 else None
