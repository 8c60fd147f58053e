"""Progress bars."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

SMOOTHING = 0.98


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description:>9}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )


@contextlib.contextmanager
def progress_bar(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs; what it yields moves the bar on."""
    with _bar() as progress:
        task = progress.add_task(name, total=total, note="")
        yield lambda count: progress.advance(task, count)


@contextlib.contextmanager
def stage_bar(name: str) -> Iterator[Callable[[float, int, float], None]]:
    """Show a training stage's bar; what it yields takes the share spent, the step and its loss."""
    smooth: float | None = None
    with _bar() as progress:
        task = progress.add_task(name, total=1.0, note="")

        def show(spent: float, step: int, loss: float) -> None:
            nonlocal smooth
            smooth = loss if smooth is None else SMOOTHING * smooth + (1 - SMOOTHING) * loss
            progress.update(task, completed=spent, note=f"step {step}, loss {smooth:.4f}")

        yield show
