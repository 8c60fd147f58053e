"""The simulated device renders placeholders with the engine's own manners, and needs no torch."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from actors.engine import Engine, Watch
from actors.engine.devices import find_device
from actors.engine.errors import CanceledError, DeadlineExceededError, InvalidRequestError, ModelUnavailableError
from actors.engine.request import StepProgress
from actors.engine.simulated import WARNING, Pace, SimulatedModels, parse_pace
from safelight.config import EngineSettings
from tests.engine.conftest import TIMEOUT_S, ask, scenes


@pytest.fixture(scope="module")
def quick() -> Iterator[Engine]:
    """An engine whose steps take next to nothing."""
    engine = Engine({"scenes": scenes()}, device="simulated:step_s=0.0001,batch=2")
    engine.start(warm=["scenes"])
    yield engine
    assert engine.stop(TIMEOUT_S)


def test_same_request_same_pixels(quick: Engine) -> None:
    """Another seed or prompt gives another picture; all have the size asked for and say what they are."""
    first, again = (quick.submit(ask(seeds=(7, 8, 9), width=96)).result(TIMEOUT_S) for _ in range(2))
    assert [image.size for image in first.images] == [(96, 64)] * 3
    assert [image.tobytes() for image in first.images] == [image.tobytes() for image in again.images]
    other = quick.submit(ask(prompt="a blue star", width=96)).result(TIMEOUT_S)
    assert len({image.tobytes() for image in (*first.images, *other.images)}) == 4
    assert (first.device, first.sampler, first.warnings) == ("simulated", "simulated", (WARNING,))


def test_device_time_is_that_of_the_pace() -> None:
    """Two pictures together are one batch; device seconds hold at least what their steps take."""
    engine = Engine({"scenes": scenes()}, device="simulated:step_s=0.002,row_s=0.003")
    engine.start()
    assert engine.submit(ask(steps=5, seeds=(1, 2))).result(TIMEOUT_S).device_seconds >= 5 * (0.002 + 2 * 0.003)
    assert engine.stop(TIMEOUT_S)


def test_progress_counts_the_steps_of_all_batches(quick: Engine) -> None:
    """It only grows, though three pictures are two batches here."""
    told: list[StepProgress] = []
    quick.submit(ask(seeds=(1, 2, 3), steps=6), Watch(on_progress=told.append)).result(TIMEOUT_S)
    assert [progress.step for progress in told] == sorted({progress.step for progress in told})
    assert told[-1] == StepProgress(6, 6)


def test_cancel_and_deadline_stop_it_between_steps(quick: Engine) -> None:
    """As they stop a real device; what it had spent by then is told."""
    handle = quick.submit(ask(steps=1000), Watch(on_progress=lambda at: handle.cancel() if at.step == 3 else None))
    with pytest.raises(CanceledError) as caught:
        handle.result(TIMEOUT_S)
    assert caught.value.device_seconds > 0
    with pytest.raises(DeadlineExceededError):
        quick.submit(ask(steps=1000, deadline=time.monotonic() + 0.02)).result(TIMEOUT_S)


def test_refusals_are_the_engines(quick: Engine) -> None:
    """A model that isn't in the settings, and text that no tokenizer takes."""
    with pytest.raises(ModelUnavailableError, match="scenes"):
        quick.submit(ask(model="other")).result(TIMEOUT_S)
    with pytest.raises(InvalidRequestError, match="Unicode"):
        quick.submit(ask(prompt="\ud800")).result(TIMEOUT_S)


def test_pace_is_read_from_the_devices_name() -> None:
    """With defaults for what is not named."""
    assert parse_pace("simulated") == Pace()
    assert parse_pace("simulated:step_s=0.5,load_s=2,batch=4") == Pace(step_s=0.5, load_s=2, batch=4)


@pytest.mark.parametrize(
    "wanted", ["simulated:speed=1", "simulated:step_s=fast", "simulated:batch=0", "simulated:load_s=nan", "simulated:x"]
)
def test_pace_that_is_none_is_a_clear_error(wanted: str) -> None:
    """At the start, with the names that there are."""
    engine = Engine({"scenes": scenes()}, device=wanted)
    engine.start()
    with pytest.raises(ModelUnavailableError, match="step_s, row_s, load_s, batch"):
        engine.wait_ready(TIMEOUT_S)
    assert engine.stop(TIMEOUT_S)


def test_models_make_room_like_real_ones() -> None:
    """The model not used for longest goes first, unless it has rows."""
    models = {name: scenes() for name in ("one", "two", "three")}
    shelf = SimulatedModels(models, find_device("simulated"), Pace(), EngineSettings(loaded_models=2))
    for name in ("one", "two"):
        shelf.load(name, set())
    assert shelf.peek(ask(model="one")) is not None
    assert not shelf.can_load("three", {"one", "two"})
    shelf.load("three", {"one"})
    assert shelf.peek(ask(model="two")) is None
    assert shelf.peek(ask(model="one")) is not None


def test_no_torch_is_imported() -> None:
    """A worker with it starts in about a second."""
    code = (
        "import sys; from actors.engine import Engine, RenderRequest; from safelight.config import ModelSettings\n"
        "engine = Engine({'m': ModelSettings(model='nobody/nothing')}, device='simulated'); engine.start()\n"
        "request = RenderRequest(model='m', prompt='p', width=64, height=64, steps=1, seeds=(1,))\n"
        "engine.submit(request).result(60); engine.stop()\n"
        "sys.exit('torch' in sys.modules or 'diffusers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=TIMEOUT_S).returncode == 0
