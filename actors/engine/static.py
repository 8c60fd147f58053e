"""Renders one request as static batches through a whole diffusers pipeline.

The way of every family that has no step adapter: the request's images go through the pipeline together, and
``callback_on_step_end`` gives progress and stops at step boundaries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from actors.engine.arguments import pipeline_arguments
from actors.engine.devices import free_memory, is_out_of_memory
from actors.engine.errors import EngineError, InvalidRequestError, OutOfMemoryError
from actors.engine.outputs import to_pictures
from actors.engine.progress import ImageProgress
from actors.engine.prompts import check_text, request_warnings
from actors.engine.request import RenderRequest, RenderResult
from actors.engine.shelf import LoadedModel

if TYPE_CHECKING:
    from PIL.Image import Image

_log = structlog.get_logger(__name__)

Checkpoint = Callable[[], EngineError | None]
"""Called at every step boundary; whatever it returns stops the render."""


class _StopRenderError(Exception):
    """Leaves a pipeline at a step boundary."""

    def __init__(self, reason: EngineError) -> None:
        super().__init__(str(reason))
        self.reason = reason


@dataclass(slots=True)
class _Render:
    request: RenderRequest
    model: LoadedModel
    arguments: dict[str, Any]
    checkpoint: Checkpoint
    progress: ImageProgress


def render(request: RenderRequest, model: LoadedModel, checkpoint: Checkpoint, progress: ImageProgress) -> RenderResult:
    """The request's pictures. Raises EngineError's kinds, among them whatever ``checkpoint`` returns."""
    check_text(request)
    arguments = pipeline_arguments(request, model.settings, model.accepted)
    warnings = request_warnings(request, model.pipeline, model.settings)
    started = time.perf_counter()
    try:
        images = _render_all(_Render(request, model, arguments, checkpoint, progress))
    except EngineError as error:
        error.device_seconds = time.perf_counter() - started
        raise
    return RenderResult(
        images=tuple(images),
        device=model.device.label,
        device_seconds=time.perf_counter() - started,
        warnings=warnings,
        sampler=type(model.pipeline.scheduler).__name__.removesuffix("Scheduler"),
    )


def _render_all(render: _Render) -> list[Image]:
    """All images of the request: together if the device holds them, else in ever smaller batches."""
    images: list[Image] = []
    seeds = render.request.seeds
    size = len(seeds)
    while len(images) < len(seeds):
        batch = _try_batch(render, seeds[len(images) : len(images) + size])
        if batch is not None:
            images += batch
            render.progress.finish(len(batch))
            continue
        free_memory(render.model.device)
        if size == 1:
            raise OutOfMemoryError(
                f"{render.model.device.label} has not enough memory for one picture of "
                f"{render.request.width}x{render.request.height}"
            )
        size = (size + 1) // 2
        _log.warning("out of memory, batch halved", action="engine.batch_halved", model=render.request.model, size=size)
    return images


def _try_batch(render: _Render, seeds: Sequence[int]) -> list[Image] | None:
    """The pictures of these seeds; None where the device ran out of memory.

    Returning instead of raising ends the exception, whose traceback holds the tensors that must be freed.
    """
    try:
        return _run_batch(render, seeds)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return None


def _run_batch(render: _Render, seeds: Sequence[int]) -> list[Image]:
    begun = False

    def on_step_end(pipeline: Any, step: int, _timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        nonlocal begun
        begun = True
        render.progress.step(step + 1, getattr(pipeline, "num_timesteps", render.request.steps), len(seeds))
        _stop_if_asked(render.checkpoint)
        return tensors

    try:
        _stop_if_asked(render.checkpoint)
        with _left_as_found(render.model):
            output = render.model.pipeline(**render.arguments, **_batch_arguments(render.model, seeds, on_step_end))
        _stop_if_asked(render.checkpoint)
    except _StopRenderError as stop:
        raise stop.reason from None
    except (ValueError, TypeError) as error:
        if begun:
            raise
        # Before the first step these come from the pipeline's check of its arguments.
        raise InvalidRequestError(f"the model refuses the request: {error}") from error
    return to_pictures(output.images, render.request.width, render.request.height)


def _stop_if_asked(checkpoint: Checkpoint) -> None:
    reason = checkpoint()
    if reason is not None:
        raise _StopRenderError(reason)


def _batch_arguments(model: LoadedModel, seeds: Sequence[int], on_step_end: Callable[..., Any]) -> dict[str, Any]:
    """One CPU generator an image: a seed draws the same noise on every device, alone or in a batch."""
    import torch

    arguments: dict[str, Any] = {
        "generator": [torch.Generator("cpu").manual_seed(seed) for seed in seeds],
        "num_images_per_prompt": len(seeds),
        "output_type": "np",
        "callback_on_step_end": on_step_end,
    }
    return {name: value for name, value in arguments.items() if name in model.accepted}


@contextmanager
def _left_as_found(model: LoadedModel) -> Iterator[None]:
    """Put back what a pipeline changes on itself, whichever way the call ends."""
    model.renew_scheduler()
    vae = getattr(model.pipeline, "vae", None)
    dtype = getattr(vae, "dtype", None)
    try:
        yield
    except BaseException:
        model.pipeline.maybe_free_model_hooks()
        raise
    finally:
        if vae is not None and vae.dtype != dtype:  # SDXL decodes in float32 and turns back only on success
            vae.to(dtype)
