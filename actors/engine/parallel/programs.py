"""What runs in a rank: a program loads its part of a denoiser and takes part in each step. No driver's code here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from actors.engine.loading import explained
from actors.engine.memory.quantizing import torchao_hushed
from actors.engine.parallel.denoisers import find_denoiser, load_denoiser
from actors.engine.parallel.orders import Order, Seat


class Program(Protocol):
    """One rank's part of a kind. Made without arguments; belongs to the rank's main thread."""

    def load(self, seat: Seat) -> int:
        """Load; the process group is there. Gives the bytes of the weights held. Raises ModelUnavailableError …"""

    def run(self, order: Order) -> Sequence[torch.Tensor]:
        """Do an order, under ``torch.no_grad``: the tensors that it wants of this rank, on any device.

        All ranks get their orders of a step at once, and may exchange what they like meanwhile.
        """


class Whole:
    """Every rank has the whole denoiser, and does the passes it is given. What cfg needs, and a base for others."""

    def load(self, seat: Seat) -> int:
        """Load the denoiser, and spread it."""
        with torchao_hushed(), explained(seat.model, seat.device):
            found = find_denoiser(seat.model)
            self._module = load_denoiser(found, seat.model, seat.device)
        self.spread(self._module, seat)
        self._stepped = dressed(self._module, found.pipeline)
        return weights_of(self._module)

    def spread(self, module: torch.nn.Module, seat: Seat) -> None:
        """Nothing is exchanged during a pass."""

    def prepare(self, order: Order) -> None:
        """Called before the passes of an order."""

    def run(self, order: Order) -> list[torch.Tensor]:
        """One output a pass."""
        self.prepare(order)
        module = self._module if order.key is None else self._stepped
        return [module(**{**one.batched, **one.shared, "return_dict": False})[0] for one in order.passes]


def dressed(module: torch.nn.Module, pipeline: str) -> torch.nn.Module:
    """The denoiser as a family's inputs name its arguments."""
    with torchao_hushed():
        from actors.engine.families import family_kind  # brings all pipelines with it
    family = family_kind(pipeline)
    return module if family is None else family.dressed(module)


def weights_of(module: torch.nn.Module) -> int:
    """Bytes of the parameters and buffers that this process holds of a module: of sharded ones its own share."""
    tensors = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    return sum(getattr(tensor, "_local_tensor", tensor).nbytes for tensor in tensors.values())
