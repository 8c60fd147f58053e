"""What the loop knows of a model: rows of one batch key that it steps together. No torch here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

    from actors.engine.request import RenderRequest, Video

Adapters = tuple[tuple[str, float], ...]
"""LoRA adapters by name, each with its weight, sorted by name."""


@dataclass(frozen=True, slots=True)
class BatchKey:
    """Rows of equal keys may share a forward pass.

    ``text_length`` is in tokens; ``guided`` says that classifier-free guidance doubles the rows; ``alone`` is a number
    of its own for a render that shares with nobody.
    """

    model: str
    width: int
    height: int
    text_length: int = 0
    guided: bool = False
    adapters: Adapters = ()
    alone: int = 0

    @property
    def size(self) -> str:
        """``WxH``, in pixels."""
        return f"{self.width}x{self.height}"


@dataclass(slots=True, eq=False, kw_only=True)
class Row:
    """One picture on its way through the denoiser, or ``images`` of them where a whole pipeline renders them.

    ``step`` of ``steps`` evaluations of the denoiser are done. A scheduler of second order needs more evaluations than
    the steps that were asked for.
    """

    key: BatchKey
    steps: int
    step: int = 0
    images: int = 1

    @property
    def done(self) -> bool:
        """True when nothing is left to step."""
        return self.step >= self.steps


@dataclass(frozen=True, slots=True, kw_only=True)
class RowState:
    """What a row needs to go on elsewhere: after ``step`` evaluations, its tensors (on the CPU) and plain values."""

    step: int
    tensors: Mapping[str, torch.Tensor] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)  # what JSON can hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A request in rows, what its user should know, and the scheduler's name."""

    rows: Sequence[Row]
    warnings: tuple[str, ...] = ()
    sampler: str = ""


Finished = Sequence["Image"] | Sequence["Video"]


class Stepper(Protocol):
    """A loaded model as the loop sees it. Belongs to the engine's thread but for what says otherwise."""

    def key(self, request: RenderRequest) -> BatchKey:
        """The request's batch key. Raises InvalidRequestError on what the model can't render."""

    def limit(self, key: BatchKey) -> int:
        """How many rows of the key are worth stepping together; at least 1."""

    def admit(self, request: RenderRequest) -> Admitted:
        """Encode the prompt, draw the latents. Raises EngineError's kinds."""

    def step(self, rows: Sequence[Row]) -> int:
        """One denoising step of all rows, which have one key; how many rows of padding went with them.

        Work may still be under way on the device. When it raises, no row has changed.
        """

    def finish(self, row: Row) -> Finished:
        """The pictures of a row that is done. Called on another thread. Raises BadOutputError."""

    def preview(self, row: Row) -> Callable[[], Image] | None:
        """A call that makes a small approximate picture of the row as it stands, on another thread."""

    def snapshot(self, row: Row) -> Callable[[], RowState] | None:
        """A call that gives the row's state as it stands now, on another thread; None where it has none to give."""

    def restore(self, row: Row, state: RowState) -> None:
        """Let a fresh row go on from a state. Raises CheckpointError where the state isn't this row's."""

    def drop(self, row: Row) -> None:
        """Let go of a row that leaves before its end."""
