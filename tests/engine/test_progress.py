"""Progress only ever grows, and is complete only when the pictures are there."""

from __future__ import annotations

from actors.engine import Engine, StepProgress
from actors.engine.progress import ImageProgress
from tests.engine.conftest import TIMEOUT_S, ask


def test_every_step_is_told_once_for_all_images(engine: Engine) -> None:
    """Four images of six steps: six messages, each under 1."""
    told: list[StepProgress] = []
    engine.submit(ask(steps=6, seeds=(1, 2, 3, 4)), told.append).result(TIMEOUT_S)
    assert [(progress.step, progress.steps) for progress in told] == [(step, 6) for step in range(1, 7)]
    fractions = [progress.fraction for progress in told]
    assert fractions == sorted(fractions)
    assert fractions[-1] < 1


def test_split_batch_never_goes_back() -> None:
    """After a batch of four fell apart at step 5, two batches of two tell what is new alone."""
    told: list[int] = []
    progress = ImageProgress(images=4, steps=8, tell=lambda step: told.append(step.step))
    for step in range(1, 6):
        progress.step(step, 8, images=4)
    for _half in range(2):
        for step in range(1, 9):
            progress.step(step, 8, images=2)
        progress.finish(2)
    assert told == [1, 2, 3, 4, 5, 6, 7, 8]


def test_second_order_schedulers_count_in_steps_asked_for() -> None:
    """Fifteen evaluations are eight steps."""
    told: list[int] = []
    progress = ImageProgress(images=1, steps=8, tell=lambda step: told.append(step.step))
    for step in range(1, 16):
        progress.step(step, 15, images=1)
    assert told == [1, 2, 3, 4, 5, 6, 7, 8]
