"""One lease, one render: what the engine makes of a claimed job."""

from __future__ import annotations

import asyncio
import time
from decimal import Decimal

from actors.checkpointing import Checkpointer
from actors.engine import EngineError, RenderRequest, RenderResult, StepProgress, Watch
from actors.engine.errors import (
    CanceledError,
    DeadlineExceededError,
    EngineStoppedError,
    InvalidRequestError,
    ModelUnavailableError,
)
from actors.engine.request import Preview
from actors.found import find_finish
from actors.inputs import Inputs, fetch_inputs
from actors.leases import HeldJob
from actors.parts import Parts
from actors.remote import render_remote
from actors.settle import Failed, HandedBack, Outcome, Rendered, Stopped
from actors.storing import OutputsUnavailableError, store_pictures
from actors.tracing import denoising
from jobstore.fingerprint import batch_key
from jobstore.job import Job, JobError, JobState
from jobstore.ledger import Spent
from jobstore.live import Progress
from jobstore.protocol import Finish
from safelight.config import ModelSettings
from safelight.telemetry import get_logger, traces
from safelight.telemetry.metrics import DEVICE_SECONDS, STEPS

_log = get_logger(__name__)

_LATE_GRACE_S = 1.0  # what a step may take beyond the deadline before the job fails without waiting for the engine
_UNWANTED_GRACE_S = 2.0
_HAND_BACK_GRACE_S = 5.0  # for a step that is worth waiting for: its checkpoint saves all before it


async def render_job(parts: Parts, held: HeldJob, checkpoints: Checkpointer) -> Outcome:
    """Find or render the pictures of a claimed job; every error of the engine or the outputs becomes an outcome."""
    try:
        found = await find_finish(parts.store, parts.outputs, held.lease)
        if found is not None:
            return Rendered(found)
        name, model = _model_of(parts, held.lease.job)
        if model.provider is not None:
            return await render_remote(parts, held, name, model, model.provider, await _deadline(parts, held))
        return Rendered(await _render(parts, held, checkpoints))
    except EngineError as error:
        if error.checkpoint is not None and not held.cancel_requested:
            await checkpoints.keep(error.checkpoint)
        DEVICE_SECONDS.labels(held.lease.job.request.model, parts.worker.device).inc(error.device_seconds)
        return _outcome(held, error, Spent(gpu_seconds=_decimal(error.device_seconds), device=parts.worker.device))
    except OutputsUnavailableError as error:
        parts.gate.shut(error.size_bytes)
        return Failed(JobError(code="outputs_unavailable", message=str(error)), error.spent)


def _outcome(held: HeldJob, error: EngineError, spent: Spent) -> Outcome:
    if isinstance(error, CanceledError):
        return Stopped(spent) if held.cancel_requested else HandedBack(spent)
    if isinstance(error, EngineStoppedError):
        if not held.handing_back:
            held.lose()  # the engine died: the store counts a rescue once the lease has run out
        return HandedBack(spent)
    return Failed(JobError(code=error.code, message=str(error)), spent)


async def _render(parts: Parts, held: HeldJob, checkpoints: Checkpointer) -> Finish:
    job = held.lease.job
    name, model = _model_of(parts, job)
    checkpoint = await checkpoints.fetch(parts.settings.worker.max_rescues)
    inputs = await fetch_inputs(parts.outputs, job)
    request = _request(job, name, await _deadline(parts, held), checkpoint, inputs)
    with denoising(request.steps) as engine:
        result = await _wait(parts, held, request, engine.watched(_watch(parts, held, checkpoints)))
        engine.note(result)
    check_pictures(name, result)
    _note_render(parts, job, name, result)
    metadata = parts.settings.jobs.picture_metadata
    try:
        with traces.span("store pictures"):
            pictures = await store_pictures(
                parts.outputs, held.lease, result, revision=model.revision, metadata=metadata, lossy=model.lossy
            )
    except OutputsUnavailableError as error:
        error.spent = Spent(gpu_seconds=_decimal(result.device_seconds), device=result.device)
        raise
    return Finish(
        pictures=pictures,
        gpu_seconds=_decimal(result.device_seconds),
        device=result.device,
        warnings=result.warnings,
        batch_rows=result.batch_rows,
        mates=tuple(held.mates) if result.batch_rows > job.request.n else (),
    )


def check_pictures(model: str, result: RenderResult) -> None:
    """Raise InvalidRequestError where the model gave videos: a job carries pictures."""
    if result.videos:
        error = InvalidRequestError(f"model {model!r} renders videos, which jobs don't carry yet")
        error.device_seconds = result.device_seconds
        raise error


def _note_render(parts: Parts, job: Job, name: str, result: RenderResult) -> None:
    if result.resumed_at:
        _log.info("render resumed", action="rendering.resumed", step=result.resumed_at, steps=job.request.steps)
    DEVICE_SECONDS.labels(name, result.device).inc(result.device_seconds)
    begun_at = max(result.resumed_at, job.request.first_step)
    STEPS.labels(name, result.device).inc(max(job.request.steps - begun_at, 0) * job.request.n)
    parts.paces.note(job.request, result.device, result.device_seconds, begun_at)


def _model_of(parts: Parts, job: Job) -> tuple[str, ModelSettings]:
    """The model as this worker's settings have it; it must be what the job was accepted for, to the revision."""
    found = parts.settings.find_model(job.request.model)
    if found is None:
        raise ModelUnavailableError(f"model {job.request.model!r} is not in the settings of this worker")
    if batch_key(job.request, found[1]) != job.batch_key:
        raise ModelUnavailableError(
            f"this worker holds another revision or format of model {job.request.model!r} than the job asks for"
        )
    return found


def _request(job: Job, model: str, deadline: float | None, checkpoint: bytes | None, inputs: Inputs) -> RenderRequest:
    request = job.request
    return RenderRequest(
        model=model,
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        width=request.width,
        height=request.height,
        steps=request.steps,
        guidance=request.guidance,
        seeds=request.seeds,
        adapters=request.adapters,
        image=inputs.image,
        mask=inputs.mask,
        strength=request.strength,
        deadline=deadline,
        checkpoint=checkpoint,
    )


async def _deadline(parts: Parts, held: HeldJob) -> float | None:
    """The deadline on this process's monotonic clock.

    What is left is the time between two instants of the store's clock: the claim, as its event tells (``started_at``
    is that of the first attempt), and the deadline. This machine's own time of day plays no part in it.
    """
    job = held.lease.job
    if job.deadline_at is None:
        return None
    try:
        events = await parts.store.events(job.id)
    except Exception as error:  # the driver's errors differ by store; the sweeper keeps the deadline too
        _log.warning("deadline left to the sweeper", action="rendering.no_deadline", error=type(error).__name__)
        return None
    claims = [event.at for event in events if event.data.get("state") == JobState.RUNNING]
    return held.claimed_at + (job.deadline_at - claims[-1]).total_seconds() if claims else None


def _watch(parts: Parts, held: HeldJob, checkpoints: Checkpointer) -> Watch:
    """What the engine tells of the render, and how often."""

    def on_progress(progress: StepProgress) -> None:
        parts.progress.publish(
            Progress(
                job_id=held.job_id,
                step=progress.step,
                steps=progress.steps,
                fraction=progress.fraction,
                attempt=held.lease.token,
            )
        )

    def on_preview(preview: Preview) -> None:
        parts.previews.offer(held.job_id, held.lease.token, preview)

    every_s = parts.settings.engine.checkpoint_every_s
    return Watch(
        on_progress=on_progress,
        on_preview=on_preview,
        preview_every=held.lease.job.request.previews,
        on_checkpoint=checkpoints.offer,
        checkpoint_every_s=None if every_s == "never" else every_s,
    )


async def _wait(parts: Parts, held: HeldJob, request: RenderRequest, watch: Watch) -> RenderResult:
    """The engine's result. A deadline or a stop is not kept waiting by a device call that doesn't return."""
    handle = parts.engine.submit(request, watch)
    held.attach(handle)
    waiting = asyncio.ensure_future(asyncio.wrap_future(handle.future))
    while not waiting.done():
        await asyncio.wait([waiting], timeout=0.5)
        if request.deadline is not None and time.monotonic() > request.deadline + _LATE_GRACE_S:
            break
        if held.unwanted_for_s > (_HAND_BACK_GRACE_S if held.handing_back else _UNWANTED_GRACE_S):
            break
    if waiting.done():
        return waiting.result()
    handle.cancel()
    waiting.cancel()
    if held.unwanted:
        raise CanceledError("the device did not come to a step boundary")
    raise DeadlineExceededError("the deadline passed before the pictures were done")


def _decimal(seconds: float) -> Decimal:
    return Decimal(f"{seconds:.6f}")
