"""Progress only ever grows, and is complete only when the pictures are there."""

from __future__ import annotations

from actors.engine import Engine, StepProgress, Watch
from actors.engine.progress import RequestProgress
from tests.engine.conftest import TIMEOUT_S, ask


def test_every_step_is_told_once_for_all_images(engine: Engine) -> None:
    """Four images of six steps: six messages, each under 1."""
    told: list[StepProgress] = []
    engine.submit(ask(steps=6, seeds=(1, 2, 3, 4)), Watch(on_progress=told.append)).result(TIMEOUT_S)
    assert [(progress.step, progress.steps) for progress in told] == [(step, 6) for step in range(1, 7)]
    fractions = [progress.fraction for progress in told]
    assert fractions == sorted(fractions)
    assert fractions[-1] < 1


def test_progress_never_goes_back() -> None:
    """A row that begins anew tells what is new alone; a share that is no whole step tells none."""
    told: list[int] = []
    progress = RequestProgress(steps=8, tell=lambda step: told.append(step.step))
    for share in (0.1, 0.3, 0.55, 0.2, 0.6, 0.7, 1.0):
        progress.at(share)
    assert told == [2, 4, 5, 8]


def test_second_order_schedulers_count_in_steps_asked_for() -> None:
    """Fifteen evaluations are eight steps."""
    told: list[int] = []
    progress = RequestProgress(steps=8, tell=lambda step: told.append(step.step))
    for evaluation in range(1, 16):
        progress.at(evaluation / 15)
    assert told == [1, 2, 3, 4, 5, 6, 7, 8]
