"""The loop with a model of arithmetic and a clock of its own: who steps with whom, and who is to blame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.engine.admission import Line
from actors.engine.errors import CanceledError, EngineError, OutOfMemoryError
from actors.engine.loop import Loop
from actors.engine.marks import Immediate
from actors.engine.observer import StepTaken, Unobserved
from actors.engine.request import NOBODY, Handle, RenderRequest, StepProgress, Watch
from actors.engine.simulated import Pace, SimulatedModel, SimulatedModels, SimulatedRow
from actors.engine.simulation import AtOnce, VirtualClock
from actors.engine.stepping import Finished, Row
from safelight.config import EngineSettings
from tests.engine.conftest import ask, scenes


class Scripted(SimulatedModel):
    """A simulated model on a device that holds ``holds`` rows, and that trips over the prompts ``bad``."""

    holds = 1_000
    bad: frozenset[str] = frozenset()

    def step(self, rows: Sequence[Row]) -> int:
        """As the simulated device, or an error before any row has changed."""
        if len(rows) > self.holds:
            raise OutOfMemoryError("made up")
        if any(isinstance(row, SimulatedRow) and row.request.prompt in self.bad for row in rows):
            raise RuntimeError("made up")
        return super().step(rows)

    def finish(self, row: Row) -> Finished:
        """A picture's worth of nothing, or an error."""
        if isinstance(row, SimulatedRow) and row.request.prompt == "undecodable":
            raise EngineError("made up")
        return super().finish(row)


class ScriptedModels(SimulatedModels):
    """Loads scripted models."""

    def load(self, name: str, in_use: set[str]) -> None:
        """In the time that loading takes."""
        super().load(name, in_use)
        self._loaded[name] = Scripted(name, self._pace, self._pace.batch, self._sleep, None)


class Steps(Unobserved):
    """Keeps what was stepped."""

    def __init__(self) -> None:
        self.taken: list[StepTaken] = []
        self.halvings = 0

    def stepped(self, step: StepTaken) -> None:
        """A step is done."""
        self.taken.append(step)

    def halved(self, model: str) -> None:
        """A batch was halved."""
        self.halvings += 1


@dataclass
class Stage:
    """A loop, its line and its clock. A step takes a second, and a tenth a row."""

    options: dict[str, Any] = field(default_factory=dict)
    models: tuple[str, ...] = ("scenes", "other", "third")
    batch: int = 4

    def __post_init__(self) -> None:
        """Set up everything."""
        self.clock = VirtualClock()
        self.line = Line(self.clock)
        self.steps = Steps()
        settings = EngineSettings(**self.options)
        pace = Pace(step_s=1.0, row_s=0.1, load_s=5.0, batch=self.batch)
        served = {name: scenes() for name in self.models}
        self.shelf = ScriptedModels(served, _place(), pace, settings, sleep=self.clock.sleep)
        self.loop = Loop(
            self.line,
            self.shelf,
            AtOnce(),
            Immediate(),
            settings,
            self.steps,
            device="simulated",
            identity=lambda handle: handle.request.prompt,
            clock=self.clock,
        )

    def submit(self, watch: Watch = NOBODY, **changes: Any) -> Handle:
        """Let a request wait."""
        handle = Handle(ask(**changes), watch)
        self.line.put(handle)
        return handle

    def run(self, until: Callable[[], bool] = lambda: False, most: int = 10_000) -> None:
        """Turn until nothing steps, or something is so."""
        for _ in range(most):
            if until() or not self.loop.turn():
                return
        raise AssertionError("the loop does not come to an end")

    @property
    def batches(self) -> list[int]:
        """How many rows each step had."""
        return [step.rows for step in self.steps.taken]


def _place() -> Any:
    from actors.engine.devices import Device

    return Device("simulated", "simulated")


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


def test_out_of_memory_halves_the_batch_and_is_remembered() -> None:
    """Four rows on a device that holds two: halves at once, and no more than two from then on."""
    stage = Stage()
    first = stage.submit(steps=1)
    stage.run()
    model = stage.shelf.peek(first.request)
    assert isinstance(model, Scripted)
    model.holds = 2
    handles = [stage.submit(steps=3) for _ in range(4)]
    stage.run()
    assert stage.batches[1:] == [2, 2, 2, 2, 2, 2]
    assert stage.steps.halvings == 1
    assert all(handle.result() for handle in handles)


def test_one_row_that_does_not_fit_fails_alone() -> None:
    """Nothing could be given up for it."""
    stage = Stage()
    stage.submit(steps=1)
    stage.run()
    model = stage.shelf.peek(ask())
    assert isinstance(model, Scripted)
    model.holds = 0
    handle = stage.submit()
    stage.run()
    with pytest.raises(OutOfMemoryError):
        handle.result(0)
    model.holds = 4
    again = stage.submit()
    stage.run()
    assert again.result(0)


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_bad_row_fails_alone(place: int) -> None:
    """Wherever it stands in the batch; the others have lost no step."""
    stage = Stage()
    stage.submit(steps=1)
    stage.run()
    model = stage.shelf.peek(ask())
    assert isinstance(model, Scripted)
    model.bad = frozenset({"bad"})
    handles = [stage.submit(steps=3, prompt="bad" if index == place else "good") for index in range(4)]
    stage.run()
    for index, handle in enumerate(handles):
        error = handle.future.exception(0)
        assert (error is not None) == (index == place)
    assert stage.batches[-2:] == [3, 3]


def test_a_request_whose_row_is_bad_takes_its_other_rows_along() -> None:
    """A job has all its pictures or none; the rest of the batch goes on."""
    stage = Stage(batch=8)
    bad, good = stage.submit(steps=2, prompt="undecodable", seeds=(1, 2, 3)), stage.submit(steps=4)
    stage.run()
    assert bad.future.exception(0) is not None
    assert good.result(0)
    assert not stage.line.busy


def test_cancel_with_a_checkpoint_goes_on_elsewhere() -> None:
    """Only the steps that were left are taken."""
    stage = Stage()
    handle = stage.submit(steps=8, seeds=(1, 2))
    stage.run(until=lambda: len(stage.batches) == 5)
    handle.cancel(keep=True)
    stage.run()
    error = handle.future.exception(0)
    assert isinstance(error, CanceledError)
    assert error.checkpoint is not None
    assert error.device_seconds > 0
    stage.steps.taken.clear()
    again = stage.submit(steps=8, seeds=(1, 2), checkpoint=error.checkpoint)
    stage.run()
    assert stage.batches == [2, 2, 2]
    assert again.result(0).resumed_at == 5


def test_a_checkpoint_of_another_request_is_not_used() -> None:
    """The render begins anew and says so."""
    stage = Stage()
    handle = stage.submit(steps=8)
    stage.run(until=lambda: len(stage.batches) == 5)
    handle.cancel(keep=True)
    stage.run()
    error = handle.future.exception(0)
    assert isinstance(error, EngineError)
    again = stage.submit(steps=8, prompt="another", checkpoint=error.checkpoint)
    broken = stage.submit(steps=8, checkpoint=b"nonsense")
    stage.run()
    for result in (again.result(0), broken.result(0)):
        assert result.resumed_at == 0
        assert any("anew" in warning for warning in result.warnings)


def test_checkpoints_come_at_an_interval() -> None:
    """In seconds, not in steps."""
    stage = Stage()
    kept: list[bytes] = []
    stage.submit(Watch(on_checkpoint=kept.append, checkpoint_every_s=3.0), steps=10)
    stage.run()
    assert len(kept) == 3


def test_everything_leaves_when_the_line_closes() -> None:
    """One turn is enough."""
    stage = Stage()
    inside, waiting = stage.submit(steps=50), stage.submit(steps=50, width=128)
    stage.run(until=lambda: len(stage.batches) == 2)
    stage.line.close()
    stage.loop.turn()
    assert inside.future.exception(0) is not None
    assert waiting.future.exception(0) is not None
    assert not stage.line.busy


REQUESTS = st.lists(
    st.tuples(
        st.integers(1, 6),  # steps
        st.integers(1, 5),  # pictures
        st.sampled_from([64, 96, 128]),
        st.sampled_from(["scenes", "other", "third"]),
        st.sampled_from(["good", "good", "bad", "undecodable"]),
        st.integers(0, 6),  # turns before the next comes
        st.booleans(),  # canceled at the next
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(REQUESTS, st.integers(1, 6), st.integers(1, 3))
def test_whatever_comes_everyone_leaves(requests: list[Any], holds: int, open_groups: int) -> None:
    """Good ones with their pictures, bad ones with an error; nothing stays behind, and no batch is too large."""
    stage = Stage({"open_groups": open_groups, "patience_s": 4.0})
    Scripted.holds, Scripted.bad = holds, frozenset({"bad"})
    try:
        handles: list[tuple[Handle, RenderRequest, bool]] = []
        for steps, pictures, width, model, prompt, turns, canceled in requests:
            changes = {"steps": steps, "seeds": tuple(range(pictures)), "width": width}
            handle = stage.submit(model=model, prompt=prompt, **changes)
            handles.append((handle, handle.request, canceled))
            for _ in range(turns):
                stage.loop.turn()
            if canceled:
                handle.cancel(keep=turns % 2 == 0)
        stage.run()
    finally:
        Scripted.holds, Scripted.bad = 1_000, frozenset()
    for handle, request, canceled in handles:
        assert handle.future.done()
        if request.prompt == "good" and not canceled:
            assert handle.future.exception(0) is None
        elif request.prompt != "good":
            assert handle.future.exception(0) is not None
    assert not stage.line.busy
    assert not stage.loop.in_use
    assert max(stage.batches, default=0) <= min(stage.batch, max(holds, 1))
