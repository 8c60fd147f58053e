"""The waiting line, without a device and with a clock of its own."""

from __future__ import annotations

import pytest

from actors.engine.admission import Admission
from actors.engine.errors import CanceledError, DeadlineExceededError, EngineError, EngineStoppedError
from actors.engine.request import Handle
from tests.engine.conftest import ask


class Clock:
    """A clock that stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        """The present instant in seconds."""
        return self.now


def test_first_in_first_out() -> None:
    """The order of submits is the order of renders."""
    line = Admission()
    handles = [Handle(ask(seeds=(seed,))) for seed in range(3)]
    for handle in handles:
        line.put(handle)
    assert [line.take() for _ in handles] == handles


def test_canceled_and_late_ones_are_passed_over() -> None:
    """They fail with their reason, and the next one is taken."""
    clock = Clock()
    line = Admission(clock)
    canceled, late, wanted = Handle(ask()), Handle(ask(deadline=99.0)), Handle(ask(deadline=101.0))
    for handle in (canceled, late, wanted):
        line.put(handle)
    canceled.cancel()
    assert line.take() is wanted
    assert isinstance(canceled.future.exception(0), CanceledError)
    assert isinstance(late.future.exception(0), DeadlineExceededError)


def test_prune_does_not_wait_for_their_turn() -> None:
    """A waiting request fails as soon as its deadline passes."""
    clock = Clock()
    line = Admission(clock)
    handle = Handle(ask(deadline=101.0))
    line.put(handle)
    line.prune()
    assert not handle.future.done()
    clock.now = 101.0
    line.prune()
    assert isinstance(handle.future.exception(0), DeadlineExceededError)
    assert not line.busy


def test_future_canceled_from_outside_is_passed_over() -> None:
    """Whoever no longer waits gets no render."""
    line = Admission()
    left, wanted = Handle(ask()), Handle(ask())
    line.put(left)
    line.put(wanted)
    assert left.future.cancel()
    assert line.take() is wanted


def test_close_fails_what_waits_and_stops_what_runs() -> None:
    """The running one hears of it at its next step."""
    line = Admission()
    running, waiting = Handle(ask()), Handle(ask())
    line.put(running)
    line.put(waiting)
    assert line.take() is running
    line.close()
    assert isinstance(waiting.future.exception(0), EngineStoppedError)
    assert isinstance(line.reason_to_stop(running), EngineStoppedError)
    assert line.take() is None
    with pytest.raises(EngineStoppedError):
        line.put(Handle(ask()))


def test_abandon_fails_everything() -> None:
    """When the thread dies nobody is left waiting."""
    line = Admission()
    running, waiting = Handle(ask()), Handle(ask())
    line.put(running)
    line.put(waiting)
    line.take()
    line.abandon(EngineError("dead"))
    assert isinstance(running.future.exception(0), EngineError)
    assert isinstance(waiting.future.exception(0), EngineError)
    assert not line.busy
