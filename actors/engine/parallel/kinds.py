"""The kinds of parallelism: what the engine's process hands to the ranks of each, and what runs in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from actors.engine.errors import ModelUnavailableError
from actors.engine.families.base import Inputs
from actors.engine.parallel.orders import Order
from actors.engine.parallel.stages.gang import Gang

if TYPE_CHECKING:
    from actors.engine.parallel.denoisers import Denoiser
    from actors.engine.stepping import BatchKey, Row
    from safelight.config import ParallelSettings


class Plan(Protocol):
    """The engine's half of a kind. Made with the model's settings; belongs to the engine's thread."""

    def check(self, denoiser: Denoiser) -> None:
        """Raise ModelUnavailableError where such a denoiser can't be spread so. No rank has been started yet."""

    def begin(self) -> None:
        """A new group of ranks is there: whatever was kept in the last one is gone."""

    def orders(self, passes: Sequence[Inputs], key: BatchKey | None, rows: Sequence[Row]) -> list[Order]:
        """One order a rank for a step of these rows.

        ``key`` is None, and ``rows`` empty, for a call out of a whole pipeline.
        """

    def join(self, answers: Sequence[Sequence[torch.Tensor]], passes: int) -> list[torch.Tensor]:
        """The outputs of so many passes, of the tensors that each rank gave."""


class Together:
    """All ranks take part in every pass, and the first has the output."""

    def __init__(self, settings: ParallelSettings) -> None:
        """``settings`` are the model's own."""
        self._settings = settings

    def check(self, denoiser: Denoiser) -> None:
        """Each rank gets the same number of attention heads; a ring splits none."""
        heads = denoiser.config.get("num_attention_heads")
        if self._settings.kind != "ring" and isinstance(heads, int) and heads % self._settings.ranks:
            raise ModelUnavailableError(
                f"parallel.devices: {heads} attention heads can't be shared equally by {self._settings.ranks} devices"
            )

    def begin(self) -> None:
        """Nothing is kept."""

    def orders(self, passes: Sequence[Inputs], key: BatchKey | None, rows: Sequence[Row]) -> list[Order]:  # noqa: ARG002
        """The same for all."""
        return [Order(passes=tuple(passes), key=key, answers=rank == 0) for rank in range(self._settings.ranks)]

    def join(self, answers: Sequence[Sequence[torch.Tensor]], passes: int) -> list[torch.Tensor]:  # noqa: ARG002
        """The first rank's."""
        return list(answers[0])


class Branches:
    """The two branches of guidance, each on a rank of its own. Rows without guidance are shared out as well."""

    def __init__(self, settings: ParallelSettings) -> None:
        """``settings`` are the model's own."""
        self._ranks = settings.ranks

    def check(self, denoiser: Denoiser) -> None:
        """Any will do."""

    def begin(self) -> None:
        """Nothing is kept."""

    def orders(self, passes: Sequence[Inputs], key: BatchKey | None, rows: Sequence[Row]) -> list[Order]:  # noqa: ARG002
        """Where a step has a pass for each branch, a pass for each rank; else each rank gets a half of the rows.

        The first half of a guided pass is the branch without the prompt (``families.base.doubled``).
        """
        shares = [tuple(passes)] if key is None else _shares(passes)
        shares += [()] * (self._ranks - len(shares))
        return [Order(passes=share, key=key, answers=bool(share)) for share in shares]

    def join(self, answers: Sequence[Sequence[torch.Tensor]], passes: int) -> list[torch.Tensor]:
        """Passes side by side, or halves together again."""
        outputs = [tensor for answer in answers for tensor in answer]
        return outputs if len(outputs) == passes else [torch.cat(outputs)]


def _shares(passes: Sequence[Inputs]) -> list[tuple[Inputs, ...]]:
    if len(passes) > 1:
        return [(passes[0],), tuple(passes[1:])]
    half = (passes[0].rows + 1) // 2
    return [(part,) for part in (_part(passes[0], 0, half), _part(passes[0], half, None)) if part.rows]


def _part(inputs: Inputs, first: int, last: int | None) -> Inputs:
    return Inputs({name: tensor[first:last] for name, tensor in inputs.batched.items()}, inputs.shared)


@dataclass(frozen=True, slots=True)
class Kind:
    """``plan`` for the engine's process; ``program``, ``module:Class``, is imported in ranks alone."""

    plan: Callable[[ParallelSettings], Plan]
    program: str


_PROGRAMS = "actors.engine.parallel"
KINDS: dict[str, Kind] = {
    "ulysses": Kind(Together, f"{_PROGRAMS}.spreading:Ulysses"),
    "ring": Kind(Together, f"{_PROGRAMS}.spreading:Ring"),
    "tensor": Kind(Together, f"{_PROGRAMS}.spreading:Tensor"),
    "cfg": Kind(Branches, f"{_PROGRAMS}.programs:Whole"),
    "async": Kind(Gang, f"{_PROGRAMS}.stages.program:Staged"),
}
"""By the ``kind`` of ``[models.NAME.parallel]``."""


def plan_of(settings: ParallelSettings) -> Plan:
    """The engine's half of a model's kind."""
    return KINDS[settings.kind].plan(settings)
