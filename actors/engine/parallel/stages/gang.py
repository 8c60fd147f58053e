"""When a step of stages is exact: the engine's half of asynchronous denoising."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from actors.engine.errors import ModelUnavailableError
from actors.engine.parallel.orders import Order

if TYPE_CHECKING:
    import torch

    from actors.engine.families.base import Inputs
    from actors.engine.parallel.denoisers import Denoiser
    from actors.engine.stepping import BatchKey, Row
    from safelight.config import ParallelSettings

EXACT, ROUND, AGAIN = "exact", "round", "again"
"""A step's kinds, in its order's note: stage after stage on this step; all at once on what the last round left; and,
with a stride of 2, the last stage alone once more on the same, for the next step."""

KINDS = ("FluxTransformer2DModel", "SD3Transformer2DModel", "UNet2DConditionModel")
"""Denoisers that the tests cut."""


class Gang:
    """Rows that step together are a gang: it begins with exact steps, as any change of the set of rows does.

    What the stages left of a step is of all its rows; of a row that has just joined there is nothing yet.
    """

    def __init__(self, settings: ParallelSettings) -> None:
        """``settings`` are the model's own."""
        self._settings = settings
        self._rows: tuple[Row, ...] = ()
        self._steps: tuple[int, ...] = ()
        self._done = 0

    def check(self, denoiser: Denoiser) -> None:
        """Only such as are known to be cut rightly."""
        if denoiser.kind.__name__ not in KINDS:
            raise ModelUnavailableError(
                f"parallel.kind: async cuts {', '.join(KINDS)}; this model has a {denoiser.kind.__name__}"
            )

    def begin(self) -> None:
        """The stages have nothing left of a step."""
        self._rows, self._steps, self._done = (), (), 0

    def orders(self, passes: Sequence[Inputs], key: BatchKey | None, rows: Sequence[Row]) -> list[Order]:
        """The same for all, but for a stride's second step, which is the last stage's alone."""
        kind = self._kind(key, rows)
        last = self._settings.ranks - 1
        return [
            Order(
                passes=tuple(passes) if kind != AGAIN or rank == last else (),
                key=key,
                answers=rank == last,
                note={"step": kind},
            )
            for rank in range(last + 1)
        ]

    def join(self, answers: Sequence[Sequence[torch.Tensor]], passes: int) -> list[torch.Tensor]:  # noqa: ARG002
        """The last stage's."""
        return list(answers[-1])

    def _kind(self, key: BatchKey | None, rows: Sequence[Row]) -> str:
        if key is None or not rows:  # a whole pipeline's call, or a pass for its own sake
            self.begin()
            return EXACT
        same = len(rows) == len(self._rows) and all(a is b for a, b in zip(rows, self._rows, strict=True))
        steps = tuple(row.step for row in rows)
        went_on = same and all(now == last + 1 for now, last in zip(steps, self._steps, strict=True))
        self._done = self._done + 1 if went_on else 0
        self._rows, self._steps = tuple(rows), steps
        since = self._done - self._settings.warmup
        if since < 0:
            return EXACT
        return ROUND if since % self._settings.stride == 0 else AGAIN
