"""A denoiser's passes where the denoiser is spread over ranks (``actors.engine.passes.Passes``)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from actors.engine.families.base import Inputs
from actors.engine.parallel.supervising import Ranks
from actors.engine.stepping import BatchKey, Row


class RankPasses:
    """Each step is done by the ranks, all of its passes at once."""

    def __init__(self, ranks: Ranks, mode: str) -> None:
        """``mode`` is what the passes are called."""
        self.ranks = ranks
        self.mode = mode

    def run(self, inputs: Inputs, key: BatchKey) -> torch.Tensor:
        """One pass: [rows, ...]."""
        return self.ranks.run([inputs], key)[0]

    def run_step(self, inputs: Sequence[Inputs], key: BatchKey, rows: Sequence[Row]) -> list[torch.Tensor]:
        """All passes of a step of these rows."""
        return self.ranks.run(inputs, key, rows)

    def padding(self, rows: int, key: BatchKey) -> int:  # noqa: ARG002
        """None."""
        return 0

    def warm(self, inputs: Inputs, key: BatchKey, limit: int) -> None:  # noqa: ARG002
        """One pass, which tells whether such a model can be spread so."""
        self.run(inputs, key)

    def idle(self) -> bool:
        """Replace ranks that were lost meanwhile; False where all are there."""
        return self.ranks.mend()

    def release(self) -> bool:
        """The ranks hold nothing but what they need."""
        return False
