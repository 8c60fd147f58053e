"""Programs for rank processes of tests: small, quick to start, and breakable on demand."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from actors.engine.errors import ModelUnavailableError
from actors.engine.parallel.orders import Order, Seat
from actors.engine.parallel.programs import Whole
from actors.engine.parallel.spreading import Ring, Tensor, Ulysses


class Adder:
    """Adds up the ranks' numbers: each pass gives ``x + sum of all ranks``. An order's note may ask for trouble."""

    def load(self, seat: Seat) -> int:
        """Loads nothing."""
        self._rank = seat.rank
        if seat.model.identity == "broken" and seat.rank == 1:
            raise ModelUnavailableError("made up: it is broken")
        return 100 + seat.rank

    def run(self, order: Order) -> Sequence[torch.Tensor]:
        """Meets the others, unless it is to fail."""
        if order.note.get("fails") == self._rank or order.note.get("fails") == "all":
            raise ValueError("made up")
        if order.note.get("memory") == self._rank:
            raise torch.OutOfMemoryError("made up")
        if order.note.get("sleeps") == self._rank:
            time.sleep(60)
        total = torch.tensor(float(self._rank))
        torch.distributed.all_reduce(total)
        return [one.batched["x"] + total for one in order.passes]


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
