"""The loop with a model of arithmetic and a clock of its own: who steps with whom, and who is to blame."""

from __future__ import annotations

import pytest

from actors.engine.request import Handle, StepProgress, Watch
from tests.engine.stage import Stage


def test_requests_join_and_leave_at_every_step() -> None:
    """A draft of two steps and a final of six share two; who comes late joins in the middle."""
    stage = Stage()
    final, draft = stage.submit(steps=6), stage.submit(steps=2)
    stage.run(until=lambda: len(stage.batches) == 3)
    late = stage.submit(steps=2)
    stage.run()
    assert stage.batches == [2, 2, 1, 2, 2, 1]
    assert all(handle.future.done() for handle in (final, draft, late))
    assert final.result().batch_rows == pytest.approx(10 / 6)


def test_device_seconds_add_up_to_the_devices_time() -> None:
    """A step's seconds are shared by those that took it."""
    stage = Stage()
    handles = [stage.submit(steps=steps, seeds=seeds) for steps, seeds in ((6, (1,)), (2, (1, 2)), (3, (1,)))]
    stage.run()
    assert sum(handle.result().device_seconds for handle in handles) == pytest.approx(stage.clock.now - 5.0)


def test_other_keys_take_turns() -> None:
    """Two sizes share the device's time, not its steps."""
    stage = Stage()
    stage.submit(steps=3)
    stage.submit(steps=3, width=128)
    stage.run()
    assert [step.size for step in stage.steps.taken] == ["64x64", "128x64"] * 3


def test_a_busy_key_does_not_starve_another() -> None:
    """Once it has waited long enough, the group that is open longest takes in no more."""
    stage = Stage({"open_groups": 1, "patience_s": 10.0})
    waiting: list[Handle] = []

    def keep_busy(_progress: StepProgress) -> None:
        if not waiting[0].future.done() and len(stage.line.waiting()) < 3:
            stage.submit(Watch(on_progress=keep_busy), steps=4)

    stage.submit(Watch(on_progress=keep_busy), steps=4)
    waiting.append(stage.submit(steps=4, width=128))
    asked_at = stage.clock.now
    stage.run(until=waiting[0].future.done)
    assert stage.clock.now - asked_at < 10.0 + 5.0 + 2 * 4 * 1.4 + 1.5
    stage.run()
    assert max(stage.batches) == 4


def test_a_model_loads_when_nobody_is_kept_from_stepping_or_it_has_waited() -> None:
    """And not in the middle of another's render, unless it has waited long enough."""
    stage = Stage({"patience_s": 10.0})
    stage.submit(steps=60)
    other = stage.submit(model="other", steps=1)
    stage.run(until=lambda: len(stage.batches) == 4)
    assert stage.shelf.peek(other.request) is None
    stage.run(until=other.future.done)
    assert stage.clock.now < 10.0 + 1.1 + 5.0 + 2 * 1.1


def test_a_model_in_use_is_not_let_go() -> None:
    """The third waits until one of the two is done."""
    stage = Stage({"patience_s": 1.0, "loaded_models": 2, "open_groups": 3})
    for name in stage.models:
        stage.submit(model=name, steps=5)
    stage.run()
    assert {step.model for step in stage.steps.taken} == set(stage.models)


def test_one_key_alone_never_closes_for_itself() -> None:
    """Who waits for room in its own group has nobody to be impatient with: the batch stays full."""
    stage = Stage({"patience_s": 2.0})
    for _ in range(16):
        stage.submit(steps=10)
    stage.run()
    assert stage.batches == [4] * 40


def test_a_group_reopens_when_nobody_waits_for_its_place_any_more() -> None:
    """The impatient one was canceled: who fits joins again."""
    stage = Stage({"open_groups": 1, "patience_s": 2.0})
    stage.submit(steps=30)
    stage.run(until=lambda: len(stage.batches) == 1)
    impatient = stage.submit(steps=1, width=128)
    stage.run(until=lambda: len(stage.batches) == 5)
    draft = stage.submit(steps=2)
    impatient.cancel()
    stage.run(until=draft.future.done)
    assert len(stage.batches) < 10


def test_a_busy_model_of_two_sizes_does_not_starve_another_model() -> None:
    """Its place is its own: nobody behind it opens a group of the busy model before it."""
    stage = Stage({"open_groups": 2, "patience_s": 5.0, "loaded_models": 1})
    waiting: list[Handle] = []

    def keep_busy(width: int) -> Watch:
        def again(_progress: StepProgress) -> None:
            if not (waiting and waiting[0].future.done()) and len(stage.line.waiting()) < 6:
                stage.submit(keep_busy(width), steps=4, width=width)

        return Watch(on_progress=again)

    stage.submit(keep_busy(64), steps=4)
    stage.submit(keep_busy(96), steps=4, width=96)
    stage.run(until=lambda: len(stage.batches) == 4)
    waiting.append(stage.submit(model="other", steps=1))
    asked_at = stage.clock.now
    stage.run(until=waiting[0].future.done)
    assert stage.clock.now - asked_at < 60.0
    stage.run()


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_steps_launched_ahead_are_charged_and_told_when_they_arrive(depth: int) -> None:
    """A request of more pictures than fit a batch is developed once a row, and pays for every step."""
    stage = Stage(depth=depth)
    told: list[int] = []
    handle = stage.submit(Watch(on_progress=lambda at: told.append(at.step)), steps=4, seeds=(1, 2, 3, 4, 5, 6))
    stage.run()
    assert handle.result(0).device_seconds == pytest.approx(4 * 1.4 + 4 * 1.2)
    assert told == [1, 2, 3, 4]
