"""Requests stop at step boundaries, and leave nothing behind for the next one."""

from __future__ import annotations

import threading
import time

import pytest

from actors.engine import Engine, Handle, RenderRequest, StepProgress, Watch
from actors.engine.errors import CanceledError, DeadlineExceededError, EngineStoppedError
from tests.engine.conftest import TIMEOUT_S, ask, scenes


def submit_held(
    engine: Engine, request: RenderRequest, at_step: int
) -> tuple[Handle, threading.Event, threading.Event]:
    """Submit a request that waits at a step: its handle, an event for "it is there", one to let it go on."""
    reached, go_on = threading.Event(), threading.Event()

    def on_progress(progress: StepProgress) -> None:
        if progress.step == at_step:
            reached.set()
            go_on.wait(TIMEOUT_S)

    return engine.submit(request, Watch(on_progress=on_progress)), reached, go_on


def test_cancel_stops_at_the_next_step_and_the_next_picture_is_untouched(engine: Engine) -> None:
    """A canceled request tells no step after the one at which it was canceled."""
    before = engine.submit(ask()).result(TIMEOUT_S)
    steps: list[int] = []

    def on_progress(progress: StepProgress) -> None:
        steps.append(progress.step)
        if progress.step == 2:
            handle.cancel()

    gate = threading.Event()
    blocker, reached, go_on = submit_held(engine, ask(), at_step=1)
    assert reached.wait(TIMEOUT_S)
    handle = engine.submit(ask(steps=50), Watch(on_progress=on_progress))
    go_on.set()
    gate.set()
    with pytest.raises(CanceledError) as caught:
        handle.result(TIMEOUT_S)
    assert steps == [1, 2]
    assert caught.value.device_seconds > 0
    blocker.result(TIMEOUT_S)
    after = engine.submit(ask()).result(TIMEOUT_S)
    assert after.images[0].tobytes() == before.images[0].tobytes()


def test_cancel_of_a_waiting_request_leaves_the_running_one_alone(engine: Engine) -> None:
    """It fails while the other is still at work."""
    running, reached, go_on = submit_held(engine, ask(steps=6), at_step=1)
    assert reached.wait(TIMEOUT_S)
    waiting = engine.submit(ask(seeds=(8,)))
    waiting.cancel()
    waiting.cancel()
    go_on.set()
    with pytest.raises(CanceledError):
        waiting.result(TIMEOUT_S)
    assert running.result(TIMEOUT_S).images


def test_deadline_that_passed_before_the_start(engine: Engine) -> None:
    """Nothing is rendered, no step is told."""
    steps: list[StepProgress] = []
    handle = engine.submit(ask(deadline=time.monotonic() - 1), Watch(on_progress=steps.append))
    with pytest.raises(DeadlineExceededError):
        handle.result(TIMEOUT_S)
    assert steps == []


def test_deadline_in_mid_render(engine: Engine) -> None:
    """It stops at the first step boundary after the deadline."""
    deadline = time.monotonic() + 0.5
    steps: list[int] = []

    def on_progress(progress: StepProgress) -> None:
        steps.append(progress.step)
        while progress.step == 3 and time.monotonic() < deadline:
            threading.Event().wait(0.01)

    with pytest.raises(DeadlineExceededError):
        engine.submit(ask(steps=100, deadline=deadline), Watch(on_progress=on_progress)).result(TIMEOUT_S)
    assert max(steps, default=0) <= 3
    assert engine.submit(ask()).result(TIMEOUT_S).images


def test_listener_that_fails_costs_nothing(engine: Engine) -> None:
    """Its exception stays where it belongs."""

    def on_progress(_progress: StepProgress) -> None:
        raise RuntimeError("a listener's fault")

    assert engine.submit(ask(), Watch(on_progress=on_progress)).result(TIMEOUT_S).images


def test_stop_ends_the_running_and_the_waiting() -> None:
    """Both fail with EngineStoppedError, and no more is taken in."""
    engine = Engine({"scenes": scenes()}, device="cpu")
    engine.start()
    assert engine.wait_ready(TIMEOUT_S) == "cpu"
    running, reached, go_on = submit_held(engine, ask(steps=50), at_step=1)
    assert reached.wait(TIMEOUT_S)
    waiting = engine.submit(ask())
    assert engine.busy
    stopper = threading.Thread(target=engine.stop, args=(TIMEOUT_S,))
    stopper.start()
    with pytest.raises(EngineStoppedError):
        waiting.result(TIMEOUT_S)
    go_on.set()
    with pytest.raises(EngineStoppedError):
        running.result(TIMEOUT_S)
    stopper.join(TIMEOUT_S)
    assert not engine.healthy
    with pytest.raises(EngineStoppedError):
        engine.submit(ask())
