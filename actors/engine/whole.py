"""Renders through a whole diffusers pipeline: the way of every one that no family steps row by row.

A request's images go through the pipeline together, in batches that the device holds. ``callback_on_step_end`` gives
progress and stops at step boundaries; the loop takes each of the pipeline's steps as a step of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import structlog

from actors.engine.arguments import pipeline_arguments
from actors.engine.devices import Device, free_memory, is_out_of_memory
from actors.engine.errors import CheckpointError, ContentFilteredError, InvalidRequestError, OutOfMemoryError
from actors.engine.latent import check_adapters
from actors.engine.lockstep import Lockstep
from actors.engine.outputs import to_pictures
from actors.engine.prompts import check_request, refusing, request_warnings
from actors.engine.sampling import own_scheduler
from actors.engine.stepping import Admitted, BatchKey, Finished, Row, RowState
from actors.engine.video import to_video

if TYPE_CHECKING:
    from PIL.Image import Image

    from actors.engine.latent import AdapterSet, Places
    from actors.engine.request import RenderRequest
    from safelight.config import ModelSettings

_log = structlog.get_logger(__name__)

Outputs = list[Any]
"""Of each image or video an array: [height, width, 3] or [frames, height, width, 3], in 0…1."""


@dataclass(slots=True, eq=False, kw_only=True)
class WholeRow(Row):
    """A request's images in one pipeline call after another. The evaluations count one more: the decoding."""

    request: RenderRequest
    call: Lockstep[Outputs] | None = None
    outputs: Outputs | None = None


class WholeModel:
    """A loaded pipeline as the loop sees it (``stepping.Stepper``). One request at a time: its parts are shared."""

    def __init__(
        self,
        name: str,
        pipeline: Any,
        settings: ModelSettings,
        device: Device,
        places: Places,
        adapters: AdapterSet | None = None,
    ) -> None:
        self.name = name
        self.pipeline = pipeline
        self.settings = settings
        self.device = device
        self.places = places
        self._adapters = adapters
        self.accepted = frozenset(inspect.signature(pipeline.__call__).parameters)
        self._scheduler = own_scheduler(getattr(pipeline, "scheduler", None))

    def key(self, request: RenderRequest) -> BatchKey:
        """One key for all: whoever comes second waits until the first is done."""
        with refusing(self.name):
            check_request(request)
            check_adapters(self._adapters, request.adapters)
            pipeline_arguments(request, self.settings, self.accepted)
        return BatchKey(model=request.model, width=0, height=0, alone=1)

    def limit(self, key: BatchKey) -> int:  # noqa: ARG002
        """One."""
        return 1

    def admit(self, request: RenderRequest) -> Admitted:
        """A row that has not begun."""
        row = WholeRow(key=self.key(request), steps=request.steps + 1, images=len(request.seeds), request=request)
        warnings = request_warnings(request, self.pipeline, self.settings)
        sampler = type(self._scheduler).__name__.removesuffix("Scheduler")
        return Admitted(rows=(row,), warnings=warnings, sampler=sampler)

    def step(self, rows: Sequence[Row]) -> int:
        """Let the pipeline run to its next step. After an error the row begins anew."""
        (row,) = cast("Sequence[WholeRow]", rows)
        if row.call is None:
            row.call = Lockstep(lambda pause: self._render_all(row, pause), name=f"pipeline-{self.name}")
        try:
            if self._adapters is not None:  # at each step: rows of the same weights took theirs meanwhile
                self._adapters.use(row.request.adapters)
            row.call.step()
        except BaseException:
            self.drop(row)
            row.step = 0
            raise
        if row.call.done:
            row.outputs, row.call = row.call.result(), None
            row.step = row.steps
        return 0

    def finish(self, row: Row) -> Finished:
        """The pictures or videos. Called on another thread. Raises BadOutputError, InvalidRequestError."""
        whole = cast("WholeRow", row)
        outputs, request = whole.outputs or [], whole.request
        if outputs and outputs[0].ndim == 4:
            return [to_video(frames, self.settings.fps) for frames in outputs]
        return [picture for array in outputs for picture in to_pictures(array[None], request.width, request.height)]

    def preview(self, row: Row) -> Callable[[], Image] | None:  # noqa: ARG002
        """None: what a pipeline's latents mean is its own affair."""
        return None

    def snapshot(self, row: Row) -> Callable[[], RowState] | None:  # noqa: ARG002
        """None: a pipeline can't be entered in the middle."""
        return None

    def restore(self, row: Row, state: RowState) -> None:  # noqa: ARG002
        """Raise CheckpointError: a pipeline can't be entered in the middle, whatever the state."""
        raise CheckpointError("a whole pipeline can't go on from a checkpoint")

    def drop(self, row: Row) -> None:
        """Leave the pipeline at the step where it stands."""
        whole = cast("WholeRow", row)
        if whole.call is not None:
            whole.call.stop()
            whole.call = None

    def _render_all(self, row: WholeRow, pause: Callable[[], None]) -> Outputs:
        """All images of the request: together if the device holds them, else in ever smaller batches."""
        import torch

        outputs: Outputs = []
        seeds = row.request.seeds
        size = len(seeds)
        with torch.no_grad():
            while len(outputs) < len(seeds):
                batch = self._tried(row, seeds[len(outputs) : len(outputs) + size], len(outputs), pause)
                if batch is not None:
                    outputs += batch
                    continue
                free_memory(self.device)
                if size == 1:
                    size_asked = f"{row.request.width}x{row.request.height}"
                    raise OutOfMemoryError(f"{self.device.label} has not enough memory for one picture of {size_asked}")
                size = (size + 1) // 2
                _log.warning("out of memory, batch halved", action="engine.batch_halved", model=self.name, rows=size)
        return outputs

    def _tried(self, row: WholeRow, seeds: Sequence[int], before: int, pause: Callable[[], None]) -> Outputs | None:
        """The images of these seeds; None where the device ran out of memory.

        Returning instead of raising ends the exception, whose traceback holds the tensors that must be freed.
        """
        try:
            return self._run(row, seeds, before, pause)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return None

    def _run(self, row: WholeRow, seeds: Sequence[int], before: int, pause: Callable[[], None]) -> Outputs:
        begun = False
        encoding = ExitStack()

        def on_step_end(pipeline: Any, step: int, _timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
            nonlocal begun
            begun = True
            encoding.close()  # prompts are encoded before the first step
            of = max(getattr(pipeline, "num_timesteps", row.request.steps), step + 1)
            share = (before + len(seeds) * (step + 1) / of) / len(row.request.seeds)
            row.step = min(int(row.request.steps * share), row.steps - 1)
            pause()
            return tensors

        arguments = pipeline_arguments(row.request, self.settings, self.accepted)
        try:
            with encoding, self.places.decoding(), self._left_as_found():
                encoding.enter_context(self.places.encoding())
                output = self.pipeline(**arguments, **self._batch_arguments(seeds, on_step_end))
        except (ValueError, TypeError) as error:
            if begun:
                raise
            # Before the first step these come from the pipeline's check of its arguments.
            raise InvalidRequestError(f"the model refuses the request: {error}") from error
        if any(_flagged(output)):
            raise ContentFilteredError("the model's safety checker flagged a picture; another seed or prompt may do")
        return list(output.frames if hasattr(output, "frames") else output.images)

    def _batch_arguments(self, seeds: Sequence[int], on_step_end: Callable[..., Any]) -> Mapping[str, Any]:
        """One CPU generator an image: a seed draws the same noise on every device, alone or in a batch."""
        import torch

        many = "num_images_per_prompt" if "num_images_per_prompt" in self.accepted else "num_videos_per_prompt"
        arguments = {
            "generator": [torch.Generator("cpu").manual_seed(seed) for seed in seeds],
            many: len(seeds),
            "output_type": "np",
            "callback_on_step_end": on_step_end,
        }
        return {name: value for name, value in arguments.items() if name in self.accepted}

    @contextmanager
    def _left_as_found(self) -> Iterator[None]:
        """Put back what a pipeline changes on itself, whichever way the call ends."""
        self.pipeline.scheduler = own_scheduler(self._scheduler)
        vae = getattr(self.pipeline, "vae", None)
        dtype = getattr(vae, "dtype", None)
        try:
            yield
        except BaseException:
            self.pipeline.maybe_free_model_hooks()
            raise
        finally:
            if vae is not None and vae.dtype != dtype:  # SDXL decodes in float32 and turns back only on success
                vae.to(dtype)


def _flagged(output: Any) -> Sequence[bool]:
    """Which pictures a pipeline's safety checker flags; none where it has no checker."""
    names = ("nsfw_content_detected", "nsfw_detected")
    return next((flags for name in names if (flags := getattr(output, name, None))), ())
