"""One lease, one order: what a provider makes of a claimed job of a remote model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress

from PIL import Image

from actors.engine import RenderResult
from actors.leases import HeldJob
from actors.parts import Parts
from actors.providers.orders import (
    Order,
    ProviderBusyError,
    ProviderError,
    ProviderFilteredError,
    ProviderOutputError,
    ProviderRefusedError,
)
from actors.settle import Failed, HandedBack, Outcome, Rendered, Stopped
from actors.storing import OutputsUnavailableError, store_pictures
from jobstore.job import Job, JobError
from jobstore.ledger import Spent
from jobstore.pictures import MAX_PIXELS, UnreadablePictureError, decode
from jobstore.protocol import Finish
from safelight.config import ModelSettings, ProviderSettings
from safelight.telemetry import get_logger, traces
from safelight.telemetry.metrics import PROVIDER_SECONDS

_log = get_logger(__name__)

_LOOK_S = 0.25
# A picture may have that many times the pixels that were asked for, or as many as the smallest of some providers.
_MOST_TIMES = 4
_ALWAYS_PIXELS = 2048 * 1024
# A failure that the provider told. After any other nobody knows whether it renders, or it has rendered.
_TOLD = frozenset(
    kind.code for kind in (ProviderBusyError, ProviderRefusedError, ProviderFilteredError, ProviderOutputError)
)
_NO_SEED = "the provider takes no seed, steps or guidance: the same request may give another picture"


async def render_remote(
    parts: Parts, held: HeldJob, name: str, model: ModelSettings, provider: ProviderSettings, deadline: float | None
) -> Outcome:
    """Have the pictures of a claimed job rendered by the provider of its model ``name``.

    ``deadline`` is an instant of ``time.monotonic()``. Raises OutputsUnavailableError.
    """
    spent = Spent(device=f"provider:{name}")
    began = time.monotonic()
    try:
        order = await _order(parts, held.lease.job)
        with traces.span("ask provider", kind="client", attributes={"safelight.model": name}):
            files = await _unless_unwanted(held, deadline, parts.providers.render(name, provider, order))
        result = await asyncio.to_thread(_result, files, held.lease.job, provider, spent.device)
    except _UnwantedError:
        return Stopped(spent) if held.cancel_requested else HandedBack(spent)
    except _LateError:
        error = JobError(code="deadline_exceeded", message="the deadline passed before the pictures were done")
        return Failed(error, spent)
    except ProviderError as failure:
        PROVIDER_SECONDS.labels(name, failure.code).observe(time.monotonic() - began)
        _log.warning("no pictures from the provider", action="remote.failed", model=name, error=failure.code)
        return Failed(JobError(code=failure.code, message=str(failure)), spent, failure.retry_after_s)
    seconds = time.monotonic() - began
    PROVIDER_SECONDS.labels(name, "ok").observe(seconds)
    # Of so many that are rendered at once, each takes its share of the lane's time.
    parts.paces.note(held.lease.job.request, spent.device, seconds / provider.max_concurrency)
    try:
        metadata = parts.settings.jobs.picture_metadata and provider.extra  # seed and steps of nobody's are no help
        with traces.span("store pictures"):
            pictures = await store_pictures(
                parts.outputs, held.lease, result, revision=model.revision, metadata=metadata
            )
    except OutputsUnavailableError as error:
        error.spent = spent
        raise
    return Rendered(Finish(pictures=pictures, device=spent.device, warnings=result.warnings))


class _UnwantedError(Exception):
    """Nobody wants the pictures here any more."""


class _LateError(Exception):
    """The deadline passed."""


async def _order(parts: Parts, job: Job) -> Order:
    request = job.request
    return Order(
        # Asked again after an answer got lost, the provider finds what it renders already; after a failure that it
        # told it is asked anew.
        key=f"{job.id}-{job.fingerprint[:12]}-{await _failures(parts, job)}",
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        width=request.width,
        height=request.height,
        n=request.n,
        seed=request.seed,
        steps=request.steps,
        guidance=request.guidance,
    )


async def _failures(parts: Parts, job: Job) -> int:
    """How often a provider has told of a failure of the job so far."""
    if job.attempts <= 1:
        return 0
    events = await parts.store.events(job.id)
    errors = [event.data["error"] for event in events if event.data.get("error")]
    return sum(error.get("code") in _TOLD for error in errors)


async def _unless_unwanted(
    held: HeldJob, deadline: float | None, work: Coroutine[None, None, tuple[bytes, ...]]
) -> tuple[bytes, ...]:
    """The result of ``work``, which is canceled when nobody wants it or it is late. Raises ProviderError's kinds."""
    waiting = asyncio.ensure_future(work)
    try:
        while not waiting.done():
            await asyncio.wait([waiting], timeout=_LOOK_S)
            if not waiting.done() and held.unwanted:
                raise _UnwantedError
            if not waiting.done() and deadline is not None and time.monotonic() > deadline:
                raise _LateError
        return waiting.result()
    finally:
        waiting.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await waiting


def _result(files: Sequence[bytes], job: Job, provider: ProviderSettings, device: str) -> RenderResult:
    """The decoded pictures. One of another size is taken, with a warning: it is rendered, and has its price."""
    asked = job.request.width * job.request.height
    most = min(max(_MOST_TIMES * asked, _ALWAYS_PIXELS), MAX_PIXELS)
    try:
        images = tuple(_flat(decode(file, most)) for file in files)
    except UnreadablePictureError as error:
        raise ProviderOutputError(f"the provider gave what can't be taken: {error}") from error
    wanted = (job.request.width, job.request.height)
    others = sorted({f"{image.width}x{image.height}" for image in images if image.size != wanted})
    warnings = [f"the provider gave {', '.join(others)} pixels instead of {wanted[0]}x{wanted[1]}"] if others else []
    if not provider.extra:
        warnings.append(_NO_SEED)
    return RenderResult(images=images, device=device, device_seconds=0.0, warnings=tuple(warnings))


def _flat(image: Image.Image) -> Image.Image:
    """RGB; what is transparent becomes white."""
    if not image.has_transparency_data:
        return image.convert("RGB")
    layered = image.convert("RGBA")
    ground = Image.new("RGBA", layered.size, "white")
    return Image.alpha_composite(ground, layered).convert("RGB")
