"""What goes into the engine and what comes out. No torch here: whoever submits needs none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderRequest:
    """A request for ``len(seeds)`` pictures of ``width`` x ``height`` pixels.

    ``deadline`` is an instant of ``time.monotonic()``, in seconds; None means no deadline.
    """

    model: str
    prompt: str
    width: int
    height: int
    steps: int
    seeds: tuple[int, ...]
    negative_prompt: str | None = None
    guidance: float | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderResult:
    """Pictures (RGB, one a seed, in order), the device's seconds that they took, and what the user should know.

    ``sampler`` names the scheduler that walked through the steps.
    """

    images: tuple[Image, ...]
    device: str
    device_seconds: float
    warnings: tuple[str, ...] = ()
    sampler: str = ""


@dataclass(frozen=True, slots=True)
class StepProgress:
    """``step`` denoising steps of ``steps`` are done."""

    step: int
    steps: int

    @property
    def fraction(self) -> float:
        """Done share of the whole request, under 1 until the pictures are there (decoding counts as one step)."""
        return self.step / (self.steps + 1)


@dataclass(slots=True, eq=False)
class Handle:
    """A request on its way through the engine. Safe to use from any thread."""

    request: RenderRequest
    on_progress: Callable[[StepProgress], None] | None = None
    future: Future[RenderResult] = field(default_factory=Future)
    _cancel: threading.Event = field(default_factory=threading.Event)

    def cancel(self) -> None:
        """Ask to stop: at the next step boundary the future fails with CanceledError. Asking again does nothing."""
        self._cancel.set()

    @property
    def cancel_requested(self) -> bool:
        """True once somebody asked to stop."""
        return self._cancel.is_set()

    def result(self, timeout: float | None = None) -> RenderResult:
        """Wait for the pictures. Raises EngineError's kinds, or TimeoutError after ``timeout`` seconds."""
        return self.future.result(timeout)
