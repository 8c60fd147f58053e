"""How a denoiser's forward pass is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch

from actors.engine.families.base import Inputs
from actors.engine.stepping import BatchKey, Row


class Passes(Protocol):
    """How a denoiser's forward pass is run: eager, compiled or from CUDA graphs (compiled/).

    Belongs to the engine's thread, as everything that touches the device does.
    """

    def run(self, inputs: Inputs, key: BatchKey) -> torch.Tensor:
        """One pass: [rows, ...]."""

    def padding(self, rows: int, key: BatchKey) -> int:
        """How many rows of no use such a pass is filled up with."""

    @property
    def mode(self) -> str:
        """``eager``, ``regional``, ``eager+graphs`` or ``regional+graphs``, as far as is known by now.

        Compiling may have failed.
        """

    def warm(self, inputs: Inputs, key: BatchKey, limit: int) -> None:
        """Get ready for batches of 1 to ``limit`` rows; ``inputs`` are those of one (a pass may have two for it).

        Takes seconds to minutes, and may be left out: then the first passes are slower. Raises what a pass raises.
        """

    def idle(self) -> bool:
        """Use a moment without work to get ready for what was asked for of late; False where there was no such thing.

        One call takes about as long as five passes. No other thread may wait for the whole device meanwhile
        (``torch.cuda.synchronize``), or empty torch's cache; waiting for a stream or an event is fine.
        """

    def release(self) -> bool:
        """Give back all memory that was taken to be faster; False where there was none.

        To be called before the weights move or go, and when the device is out of memory. Passes can be run afterwards.
        """


@runtime_checkable
class StepPasses(Protocol):
    """Passes that do all of a step's at once."""

    def run_step(self, inputs: Sequence[Inputs], key: BatchKey, rows: Sequence[Row]) -> list[torch.Tensor]:
        """The output of each pass of a step of these rows."""


def run_step(passes: Passes, inputs: Sequence[Inputs], key: BatchKey, rows: Sequence[Row]) -> list[torch.Tensor]:
    """The output of each pass of a step: at once where the passes can, else one after the other."""
    if isinstance(passes, StepPasses):
        return passes.run_step(inputs, key, rows)
    return [passes.run(one, key) for one in inputs]


class Eager:
    """A pass as torch runs it."""

    mode = "eager"

    def __init__(self, denoiser: torch.nn.Module) -> None:
        self._denoiser = denoiser

    def run(self, inputs: Inputs, key: BatchKey) -> torch.Tensor:  # noqa: ARG002
        """One pass: [rows, ...]."""
        output: torch.Tensor = self._denoiser(**inputs.batched, **inputs.shared, return_dict=False)[0]
        return output

    def padding(self, rows: int, key: BatchKey) -> int:  # noqa: ARG002
        """None."""
        return 0

    def warm(self, inputs: Inputs, key: BatchKey, limit: int) -> None:
        """Nothing is to be prepared."""

    def idle(self) -> bool:
        """Nothing is to be prepared."""
        return False

    def release(self) -> bool:
        """Nothing is held."""
        return False


def resized(inputs: Inputs, rows: int) -> Inputs:
    """The same inputs with so many rows: the first of them, or the last one again and again."""
    last = inputs.rows - 1
    index = [min(row, last) for row in range(rows)]
    return Inputs({name: tensor[index] for name, tensor in inputs.batched.items()}, inputs.shared)


def run_without_grad(passes: Passes, inputs: Inputs, key: BatchKey) -> torch.Tensor:
    """A pass for its own sake, outside of any step."""
    with torch.no_grad():
        return passes.run(inputs, key)
