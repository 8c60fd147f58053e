"""What goes into the engine and what comes out. No torch here: whoever submits needs none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

    from actors.engine.stepping import Adapters


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderRequest:
    """A request for ``len(seeds)`` pictures of ``width`` x ``height`` pixels.

    ``deadline`` is an instant of ``time.monotonic()``, in seconds; None means no deadline. ``adapters`` are LoRA
    adapters of the model's settings by name, each with its weight, sorted by name. ``image``, ``mask``, ``strength``
    and ``frames`` are for pipelines that take them: image to image, inpainting, video. ``checkpoint`` is what an
    earlier render of the same request left behind: the render goes on from there, or begins anew where it doesn't fit.
    """

    model: str
    prompt: str
    width: int
    height: int
    steps: int
    seeds: tuple[int, ...]
    negative_prompt: str | None = None
    guidance: float | None = None
    adapters: Adapters = ()
    image: Image | None = None
    mask: Image | None = None
    strength: float | None = None
    frames: int | None = None
    deadline: float | None = None
    checkpoint: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Video:
    """An MP4 file (H.264, yuv420p) of ``frames`` frames, ``fps`` a second."""

    data: bytes
    width: int
    height: int
    frames: int
    fps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderResult:
    """Pictures (RGB, one a seed, in order) or videos, the device's seconds that they took, and what to tell the user.

    A step's seconds are shared by the rows that took it together, and decoding beside a step counts nothing: over all
    requests they add up to the device's time.
    ``sampler`` names the scheduler that walked through the steps. ``batch_rows`` is how many rows, on average, shared
    the steps. ``resumed_at`` is the step that a checkpoint brought the render to.
    """

    images: tuple[Image, ...] = ()
    videos: tuple[Video, ...] = ()
    device: str
    device_seconds: float
    warnings: tuple[str, ...] = ()
    sampler: str = ""
    batch_rows: float = 1.0
    resumed_at: int = 0


@dataclass(frozen=True, slots=True)
class StepProgress:
    """``step`` denoising steps of ``steps`` are done."""

    step: int
    steps: int

    @property
    def fraction(self) -> float:
        """Done share of the whole request, under 1 until the pictures are there (decoding counts as one step)."""
        return self.step / (self.steps + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A small approximate picture of image ``index`` after ``step`` of ``steps`` denoising steps."""

    index: int
    step: int
    steps: int
    image: Image


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Who hears of a render, and how often. The calls come from the engine's threads and must return at once.

    ``preview_every`` is in denoising steps, 0 for no previews; of those that come while one is in the making, only the
    latest is made. ``checkpoint_every_s`` is in seconds; None leaves checkpoints to ``Handle.cancel``.
    """

    on_progress: Callable[[StepProgress], None] | None = None
    on_preview: Callable[[Preview], None] | None = None
    on_checkpoint: Callable[[bytes], None] | None = None
    preview_every: int = 0
    checkpoint_every_s: float | None = None


NOBODY = Watch()


@dataclass(slots=True, eq=False)
class Handle:
    """A request on its way through the engine. Safe to use from any thread."""

    request: RenderRequest
    watch: Watch = NOBODY
    future: Future[RenderResult] = field(default_factory=Future)
    submitted_at: float = 0.0
    _cancel: threading.Event = field(default_factory=threading.Event)
    _keep: threading.Event = field(default_factory=threading.Event)

    def cancel(self, *, keep: bool = False) -> None:
        """Ask to stop: at the next step boundary the future fails with CanceledError. Asking again does nothing.

        With ``keep`` the error carries a checkpoint, from which the render can go on elsewhere.
        """
        if keep:
            self._keep.set()
        self._cancel.set()

    @property
    def cancel_requested(self) -> bool:
        """True once somebody asked to stop."""
        return self._cancel.is_set()

    @property
    def keep_requested(self) -> bool:
        """True where the stop is to leave a checkpoint."""
        return self._keep.is_set()

    def result(self, timeout: float | None = None) -> RenderResult:
        """Wait for the pictures. Raises EngineError's kinds, or TimeoutError after ``timeout`` seconds."""
        return self.future.result(timeout)
