"""The render actor: answers a bell by claiming one job and bringing it to its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from structlog.contextvars import bound_contextvars

from actors.checkpointing import Checkpointer
from actors.leases import HeldJob, Leases
from actors.mates import preferred
from actors.parts import Parts
from actors.rendering import render_job
from actors.settle import Failed, HandedBack, Outcome, Rendered, Settler, device_seconds
from actors.solitude import Solitude
from actors.storing import discard_pictures
from actors.tracing import attempt_span, note_outcome, trace_wait
from jobstore.job import Job, JobError, JobState
from jobstore.protocol import Lease, Settled
from safelight.telemetry import get_logger, traces
from safelight.telemetry.dimensions import DimensionMetrics, dimension_metrics
from safelight.telemetry.metrics import (
    BELLS,
    CHARGED,
    CLAIMS,
    COMPLETION_SECONDS,
    FALLBACKS,
    JOBS_FINISHED,
    PICTURES,
    QUEUE_WAIT_SECONDS,
    RENDER_SECONDS,
    WORKER_SLOTS,
    begin_models,
)

_log = get_logger(__name__)


class RenderActor:
    """What the Dramatiq actors of all lanes call. It raises nothing: a message has no fate but to be acked.

    Whatever goes wrong is in the store: a job that is not settled here is rescued when its lease runs out.
    """

    def __init__(self, parts: Parts, leases: Leases, on_event: Callable[[], None] = lambda: None) -> None:
        """``on_event`` hears that a job may have a new event."""
        self._parts = parts
        self._leases = leases
        self._settler = Settler(parts.store, leases, parts.bell)
        self._solitude = Solitude(parts.settings.worker.max_rescues)
        self._slots = asyncio.Semaphore(parts.settings.slots)
        self._draining = False
        self._held_off = False
        self._dimensions = dimension_metrics(parts.settings.telemetry.dimensions)
        self._on_event = on_event
        begin_models(parts.settings.models, parts.settings.jobs.currency)
        WORKER_SLOTS.labels(parts.worker.device).set(parts.settings.slots)

    @property
    def full(self) -> bool:
        """True while every slot holds a job, or is about to."""
        return self._slots.locked()

    def drain(self) -> None:
        """Claim no more."""
        self._draining = True

    def hold_off(self, asked: bool) -> None:
        """Claim nothing while an operator asks for that."""
        self._held_off = asked

    async def answer(self, lane: str) -> None:
        """Answer one bell of a lane: claim a job of it, if there is one, and render it."""
        if await self.take(lane):
            return
        if self._draining or self._held_off:
            self._parts.bell.ring(lane)  # for whoever is still there
        else:
            BELLS.labels("empty").inc()

    async def take(self, lane: str, on_claim: Callable[[], None] | None = None) -> bool:
        """Claim a job of a lane and bring it to its end; False where there was none. ``on_claim`` hears of a claim."""
        worker = self._parts.worker
        with bound_contextvars(worker_id=str(worker.id), device=worker.device, lane=lane):
            async with self._slots, self._solitude.turn():
                claimed_at = time.monotonic()
                lease = None if self._draining or self._held_off else await self._claim(lane)
                if lease is None:
                    return False
                held = self._leases.hold(lease, claimed_at)
                if on_claim is not None:
                    on_claim()
                self._on_event()
                with bound_contextvars(job_id=str(lease.job.id)), attempt_span(lease, worker):
                    await trace_wait(self._parts.store, lease.job)
                    await self._bring_to_end(held)
                self._on_event()
                return True

    async def _claim(self, lane: str) -> Lease | None:
        if not self._parts.engine.healthy:
            _log.error("no claim: the engine is dead or hung", action="render.engine_unhealthy")
            CLAIMS.labels("failed").inc()
            return None
        if not await self._parts.gate.is_open():
            return None
        try:
            prefer = preferred((held.lease.job for held in self._leases.held), lane, self._parts.settings)
            lease = await self._parts.store.claim(self._parts.worker, (lane,), prefer)
        except Exception as error:  # the driver's errors differ by store; the sweeper rings again
            _log.warning("claim failed", action="render.claim_failed", error=type(error).__name__)
            CLAIMS.labels("failed").inc()
            return None
        CLAIMS.labels("claimed" if lease else "empty").inc()
        return lease

    async def _bring_to_end(self, held: HeldJob) -> None:
        _note_start(held.lease.job, self._dimensions)
        checkpoints = Checkpointer(self._parts.outputs, held)
        try:
            async with self._solitude.of(held.lease.job) as admitted:
                outcome = await render_job(self._parts, held, checkpoints) if admitted else HandedBack()
                await self._settle(held, outcome, checkpoints)
        except Exception as error:
            _log.exception("render failed unexpectedly", action="render.unexpected")
            await self._fail(held, error, checkpoints)
        finally:
            checkpoints.close()
            self._leases.drop(held)

    async def _settle(self, held: HeldJob, outcome: Outcome, checkpoints: Checkpointer) -> None:
        with traces.span("settle"):
            settled = None if held.lost else await self._settler.settle(held, outcome)
        note_outcome(traces.current(), outcome, settled.job.state if settled else None)
        if settled is not None:
            _note_end(held, settled)
            self._count(held, outcome, settled.job)
            if settled.job.state.terminal or _spoilt(outcome) or _sent_on(held, settled):
                await checkpoints.discard()
        elif isinstance(outcome, Rendered):
            _log.info("result discarded: the lease is gone", action="render.discarded")
            if not held.uncertain:  # a finish without an answer may have gone through
                await discard_pictures(self._parts.outputs, held.lease, outcome.finish.pictures)

    def _count(self, held: HeldJob, outcome: Outcome, job: Job) -> None:
        """Count an attempt by the job's dimensions, and the job where it is at its end."""
        spent = float(device_seconds(outcome))
        self._dimensions.attempted(job.dimensions, spent, time.monotonic() - held.claimed_at)
        if job.state.terminal:
            self._dimensions.settled(job.dimensions, job.state.value, float(job.charged), job.currency)

    async def _fail(self, held: HeldJob, error: Exception, checkpoints: Checkpointer) -> None:
        failed = Failed(JobError(code="render_failed", message=f"the render failed: {type(error).__name__}"))
        try:
            await self._settle(held, failed, checkpoints)
        except Exception:
            _log.exception("failure not written", action="render.failure_not_written")


def _spoilt(outcome: Outcome) -> bool:
    """True where going on from a checkpoint would end alike: its numbers may be what is bad."""
    return isinstance(outcome, Failed) and outcome.error.code == "bad_output"


def _sent_on(held: HeldJob, settled: Settled) -> bool:
    """True where another model renders the job from now on."""
    return settled.job.request.model != held.lease.job.request.model


def _note_start(job: Job, dimensions: DimensionMetrics) -> None:
    _log.info("job claimed", action="render.claimed", model=job.request.model, attempt=job.attempts, **_whose(job))
    if job.started_at is not None:
        waited = (job.started_at - job.created_at).total_seconds()
        QUEUE_WAIT_SECONDS.labels(job.request.model).observe(max(waited, 0.0))
        if job.attempts == 1 and not job.rescues:
            dimensions.waited(job.dimensions, max(waited, 0.0))


def _note_end(held: HeldJob, settled: Settled) -> None:
    job = settled.job
    seconds = time.monotonic() - held.claimed_at
    RENDER_SECONDS.labels(job.request.model).observe(seconds)
    JOBS_FINISHED.labels(job.request.model, job.state.value).inc()
    _note_price(job)
    _log.info(
        "job settled",
        action="render.settled",
        state=job.state.value,
        error=job.error.code if job.error else None,
        seconds=round(seconds, 3),
        **_whose(job),
    )
    if _sent_on(held, settled) and job.error is not None:
        FALLBACKS.labels(job.error.code).inc()
        _log.warning("job sent on", action="render.sent_on", to_model=job.request.model, cause=job.error.code)


def _note_price(job: Job) -> None:
    """Count what a job that is at its end took and brought."""
    if job.state.terminal:
        CHARGED.labels(job.request.model, job.currency).inc(float(job.charged))
    if job.state is JobState.SUCCEEDED and job.finished_at is not None:
        PICTURES.labels(job.request.model).inc(len(job.pictures))
        COMPLETION_SECONDS.labels(job.request.model).observe((job.finished_at - job.created_at).total_seconds())


def _whose(job: Job) -> dict[str, object]:
    """Whose job it is, for the log."""
    return {"key_id": str(job.key_id) if job.key_id else None, "dimensions": job.dimensions}
