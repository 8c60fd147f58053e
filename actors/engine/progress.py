"""The progress of a request, which never goes back."""

from __future__ import annotations

from collections.abc import Callable

from actors.engine.request import StepProgress


class RequestProgress:
    """Tells how many of ``steps`` denoising steps are done. What was told before is not told again.

    Rows of a request may stand at different steps, and those of a batch that was split begin anew: what counts is the
    share of the whole.
    """

    def __init__(self, steps: int, tell: Callable[[StepProgress], None]) -> None:
        self._steps = steps
        self._tell = tell
        self._told = 0

    def at(self, share: float) -> None:
        """So much of all evaluations is done: 0…1."""
        step = min(int(self._steps * share + 1e-9), self._steps)
        if step > self._told:
            self._told = step
            self._tell(StepProgress(step, self._steps))
