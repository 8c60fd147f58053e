"""A claimed job's place in its trace: how long it waited, and what its render is made of. docs/tracing.md draws it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from actors.engine import RenderResult, StepProgress, Watch
from actors.settle import Failed, HandedBack, Outcome, Rendered, Stopped, device_seconds
from jobstore.job import Job, JobEvent, JobState
from jobstore.protocol import JobStore, Lease, Worker
from safelight.telemetry import get_logger, traces
from safelight.telemetry.traces import Attributes, Span, dimension_attributes, kind_of

_log = get_logger(__name__)

_READ_S = 2.0
_MOST_STEP_EVENTS = 8  # a render, whatever its steps
_OUTCOMES = {Rendered: "rendered", Failed: "failed", Stopped: "canceled", HandedBack: "handed_back"}


def attempt_span(lease: Lease, worker: Worker) -> AbstractContextManager[Span]:
    """The span of one attempt at a job, current within it: a child of its submit, whatever attempts came before."""
    job = lease.job
    return traces.span(
        f"process {job.lane}", kind="consumer", parent=job.traceparent, attributes=_attributes(lease, worker)
    )


async def trace_wait(store: JobStore, job: Job) -> None:
    """The span of a job's wait before this attempt: from when it could start to when it was claimed.

    Both are told by the store's clock, as the job's events have them.
    """
    if not traces.current().recorded:
        return
    try:
        async with asyncio.timeout(_READ_S):
            waited = _last_wait(await store.events(job.id), job)
    except Exception as error:  # the driver's errors differ by store; a trace is no condition
        _log.info("wait not traced", action="tracing.no_wait", error=type(error).__name__)
        return
    span = traces.begin(
        f"wait {job.lane}",
        parent=job.traceparent,
        at=waited[0],
        attributes={"safelight.job.id": str(job.id), "safelight.job.attempt": job.attempts},
    )
    span.end(waited[1])


def note_outcome(span: Span, outcome: Outcome, state: JobState | None) -> None:
    """How an attempt ended, and where that left its job (None: the lease was lost)."""
    span.set(
        {
            "safelight.outcome": _OUTCOMES.get(type(outcome)),
            "safelight.cache": outcome.finish.cache.value if isinstance(outcome, Rendered) else None,
            "safelight.device_seconds": float(device_seconds(outcome)),
            "safelight.job.state": None if state is None else state.value,
        }
    )
    if isinstance(outcome, Failed):
        span.fail(outcome.error.code)
    elif state is None:
        span.fail("lease_lost")


class Denoising:
    """The engine's part of a render, in two spans: the steps (with the wait for them), and what comes after the last.

    A step has no span of its own; some of them, evenly spread, are events.
    """

    def __init__(self, steps: int) -> None:
        self._every = max(1, -(-steps // _MOST_STEP_EVENTS))
        self._attempt = traces.current()
        self._steps = traces.begin("denoise", attributes={"safelight.steps": steps})
        self._rest: Span | None = None

    def watched(self, watch: Watch) -> Watch:
        """``watch``, with the steps noted too."""
        if not self._steps.recorded:
            return watch
        tell = watch.on_progress

        def on_progress(progress: StepProgress) -> None:
            self._note(progress)
            if tell is not None:
                tell(progress)

        return replace(watch, on_progress=on_progress)

    def note(self, result: RenderResult) -> None:
        """The pictures are there."""
        told: Attributes = {
            "safelight.batch.rows": round(result.batch_rows, 2),
            "safelight.resumed_at": result.resumed_at,
            "safelight.sampler": result.sampler or None,
        }
        self._attempt.set(told)
        (self._rest or self._steps).set(told)

    def end(self, error: Exception | None = None) -> None:
        """It is over; with an ``error`` there are no pictures."""
        if error is not None:
            (self._rest or self._steps).fail(kind_of(error))
        self._steps.end()
        if self._rest is not None:
            self._rest.end()

    def _note(self, progress: StepProgress) -> None:
        if progress.step == 1 or progress.step % self._every == 0:
            self._steps.event("step", {"safelight.step": progress.step})
        if progress.step >= progress.steps and self._rest is None:
            self._steps.end()
            self._rest = traces.begin("decode", parent=self._attempt)


@contextmanager
def denoising(steps: int) -> Iterator[Denoising]:
    """The engine's part of a render, around the block."""
    engine = Denoising(steps)
    error: Exception | None = None
    try:
        yield engine
    except Exception as found:
        error = found
        raise
    finally:
        engine.end(error)


def _last_wait(events: Sequence[JobEvent], job: Job) -> tuple[datetime, datetime]:
    """When the latest claim was, and since when the job had been queued then."""
    states = [event.data.get("state") for event in events]
    if JobState.RUNNING not in states:
        return job.created_at, datetime.now(UTC)
    claim = first = len(states) - 1 - states[::-1].index(JobState.RUNNING)
    while first > 0 and states[first - 1] == JobState.QUEUED:
        first -= 1
    since = events[first].at if first < claim else events[max(claim - 1, 0)].at
    return since, events[claim].at


def _attributes(lease: Lease, worker: Worker) -> Attributes:
    """What is known of an attempt when it begins. No prompt, no seed: they are the client's own."""
    job, request = lease.job, lease.job.request
    return {
        "messaging.system": "safelight",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": job.lane,
        "messaging.message.id": str(job.id),
        "safelight.job.id": str(job.id),
        "safelight.job.attempt": job.attempts,
        "safelight.job.rescues": job.rescues,
        "safelight.model": request.model,
        "safelight.width": request.width,
        "safelight.height": request.height,
        "safelight.images": request.n,
        "safelight.steps": request.steps,
        "safelight.format": request.format.value,
        "safelight.priority": request.priority,
        "safelight.cache_mode": request.cache.value,
        "safelight.worker.id": str(worker.id),
        "safelight.device": worker.device,
        "safelight.key_id": str(job.key_id) if job.key_id else None,
        "safelight.team": job.team,
        **dimension_attributes(job.dimensions),
    }
