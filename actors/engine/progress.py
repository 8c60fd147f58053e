"""Turns steps of batches into the progress of a request, which never goes back."""

from __future__ import annotations

from collections.abc import Callable

from actors.engine.request import StepProgress


class ImageProgress:
    """Progress of a request of ``images`` images and ``steps`` steps.

    A batch that was split after running out of memory begins anew; what was told before is not told again.
    """

    def __init__(self, images: int, steps: int, tell: Callable[[StepProgress], None]) -> None:
        self._images = images
        self._steps = steps
        self._tell = tell
        self._done = 0
        self._told = 0

    def step(self, step: int, of: int, images: int) -> None:
        """``step`` of ``of`` steps are done for a batch of ``images`` images.

        ``of`` may exceed the steps asked for: schedulers of second order evaluate the model twice a step.
        """
        done = self._done + images * min(step, of) / max(of, 1)
        told = int(self._steps * done / self._images)
        if told > self._told:
            self._told = told
            self._tell(StepProgress(told, self._steps))

    def restart(self) -> None:
        """All images begin anew; what was told before is not told again."""
        self._done = 0

    def finish(self, images: int) -> None:
        """``images`` images are complete."""
        self._done += images
