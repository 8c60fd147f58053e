"""The line before the engine, without a device and with a clock of its own."""

from __future__ import annotations

import pytest

from actors.engine.admission import Line
from actors.engine.errors import CanceledError, DeadlineExceededError, EngineError, EngineStoppedError
from actors.engine.request import Handle
from actors.engine.simulation import VirtualClock
from tests.engine.conftest import ask


def put(line: Line, *handles: Handle) -> None:
    """Let them wait."""
    for handle in handles:
        line.put(handle)


def test_they_wait_in_the_order_in_which_they_came() -> None:
    """And know since when."""
    clock = VirtualClock()
    line = Line(clock)
    handles = [Handle(ask(seeds=(seed,))) for seed in range(3)]
    for handle in handles:
        clock.now += 1
        line.put(handle)
    assert list(line.waiting()) == handles
    assert [handle.submitted_at for handle in handles] == [1, 2, 3]


def test_prune_lets_go_of_canceled_and_late_ones() -> None:
    """They fail with their reason as soon as it is so, not when their turn comes."""
    clock = VirtualClock()
    line = Line(clock)
    canceled, late, wanted, left = Handle(ask()), Handle(ask(deadline=9.0)), Handle(ask(deadline=11.0)), Handle(ask())
    put(line, canceled, late, wanted, left)
    canceled.cancel()
    assert left.future.cancel()
    line.prune()
    assert list(line.waiting()) == [late, wanted]
    clock.now = 9.0
    line.prune()
    assert list(line.waiting()) == [wanted]
    assert isinstance(canceled.future.exception(0), CanceledError)
    assert isinstance(late.future.exception(0), DeadlineExceededError)


def test_future_canceled_from_outside_does_not_enter() -> None:
    """Whoever no longer waits gets no render."""
    line = Line()
    left = Handle(ask())
    put(line, left)
    assert left.future.cancel()
    assert not line.enter(left)
    assert not line.busy


def test_close_fails_what_waits_and_stops_what_is_inside() -> None:
    """The one inside hears of it at its next step."""
    line = Line()
    inside, waiting = Handle(ask()), Handle(ask())
    put(line, inside, waiting)
    assert line.enter(inside)
    line.close()
    assert isinstance(waiting.future.exception(0), EngineStoppedError)
    assert isinstance(line.reason_to_stop(inside), EngineStoppedError)
    assert line.busy
    with pytest.raises(EngineStoppedError):
        line.put(Handle(ask()))


def test_abandon_fails_everything() -> None:
    """When the thread dies nobody is left waiting."""
    line = Line()
    inside, waiting = Handle(ask()), Handle(ask())
    put(line, inside, waiting)
    line.enter(inside)
    line.abandon(EngineError("dead"))
    assert isinstance(inside.future.exception(0), EngineError)
    assert isinstance(waiting.future.exception(0), EngineError)
    assert not line.busy
