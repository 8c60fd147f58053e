"""What the shelf gets: passes that can be warmed, given an idle moment, and let go of."""

from __future__ import annotations

from typing import Protocol

import torch

from actors.engine.families.base import Inputs
from actors.engine.latent import Eager, Passes
from actors.engine.stepping import BatchKey


class ReadyPasses(Passes, Protocol):
    """Passes of one denoiser. They belong to the engine's thread, as everything that touches the device does."""

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


class Direct(Eager):
    """Eager passes: nothing to get ready."""

    mode = "eager"

    def warm(self, inputs: Inputs, key: BatchKey, limit: int) -> None:
        """Nothing."""


def resized(inputs: Inputs, rows: int) -> Inputs:
    """The same inputs with so many rows: the first of them, or the last one again and again."""
    last = inputs.rows - 1
    index = [min(row, last) for row in range(rows)]
    return Inputs({name: tensor[index] for name, tensor in inputs.batched.items()}, inputs.shared)


def run_without_grad(passes: Passes, inputs: Inputs, key: BatchKey) -> torch.Tensor:
    """A pass for its own sake, outside of any step."""
    with torch.no_grad():
        return passes.run(inputs, key)
