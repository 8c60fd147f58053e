"""A call that runs in steps, one thread at a time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import pytest

from actors.engine.lockstep import Lockstep


def test_it_runs_from_pause_to_pause() -> None:
    """And works only while the caller waits for it."""
    seen: list[str] = []

    def call(pause: Callable[[], None]) -> str:
        for number in range(3):
            seen.append(f"in {number}")
            pause()
        return "done"

    steps = Lockstep(call)
    while not steps.done:
        steps.step()
        seen.append("out")
    assert seen == ["in 0", "out", "in 1", "out", "in 2", "out", "out"]
    assert steps.result() == "done"


def test_errors_are_raised_where_it_is_stepped() -> None:
    """Once, and without the frames that would hold its tensors."""

    def call(pause: Callable[[], None]) -> None:
        pause()
        raise ValueError("made up")

    steps = Lockstep(call)
    steps.step()
    with pytest.raises(ValueError, match="made up"):
        steps.step()
    assert steps.done
    with pytest.raises(RuntimeError):
        steps.result()


def test_stop_unwinds_the_call() -> None:
    """What it holds in ``finally`` and ``except Exception`` is respected; its thread ends."""
    unwound = threading.Event()

    def call(pause: Callable[[], None]) -> None:
        try:
            while True:
                with contextlib.suppress(Exception):
                    pause()
        finally:
            unwound.set()

    steps = Lockstep(call)
    steps.step()
    steps.stop()
    steps.stop()
    assert unwound.is_set()
    assert steps.done


def test_stop_before_the_first_step_is_nothing() -> None:
    """No thread was started."""
    steps = Lockstep(lambda _pause: None)
    steps.stop()
    assert not steps.done
