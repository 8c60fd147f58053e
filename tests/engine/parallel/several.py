"""A program for ranks of tests: one denoiser, spread in several ways."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from actors.engine.parallel.orders import Order, Seat
from actors.engine.parallel.programs import Whole
from actors.engine.parallel.spreading import Ring, Tensor, Ulysses


class Several:
    """The same denoiser whole, and spread in each way; an order's note says which is meant."""

    def load(self, seat: Seat) -> int:
        """Load it four times."""
        programs: dict[str, Whole] = {"whole": Whole(), "ulysses": Ulysses(), "ring": Ring(), "tensor": Tensor()}
        self._programs = programs
        self._weights = {name: program.load(seat) for name, program in programs.items()}
        return self._weights["tensor"]

    def run(self, order: Order) -> Sequence[torch.Tensor]:
        """The passes, one way; or how many bytes of weights each way has here."""
        if order.note["kind"] == "weights":
            return [torch.tensor([self._weights[name] for name in self._programs])]
        return self._programs[order.note["kind"]].run(order)
