"""Faults of a real model on a real device: memory, numbers, one row among others."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from actors.engine import Engine, Handle, RenderRequest
from actors.engine.building import Builder
from actors.engine.devices import Device
from actors.engine.errors import BadOutputError, EngineError, OutOfMemoryError
from actors.engine.latent import LatentModel
from actors.engine.observer import Unobserved
from actors.engine.shelf import Shelf
from safelight.config import EngineSettings
from tests.engine.conftest import TIMEOUT_S, ask, scenes

CPU = Device("cpu", "cpu")
ERRORS: dict[str, Callable[[], Exception]] = {
    "cuda": lambda: torch.OutOfMemoryError("made up"),
    "cpu": lambda: RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
}


class Trouble:
    """What the denoiser does not take: more rows than ``holds``, or the seeds' noise in ``bad``."""

    def __init__(self) -> None:
        self.holds = 1_000
        self.error: Callable[[], Exception] = ERRORS["cuda"]
        self.asked: list[int] = []
        self.poison_row: int | None = None
        self.raise_on_row: int | None = None

    def before(self, _module: torch.nn.Module, _arguments: Any, named: dict[str, Any]) -> None:
        """The device's limit is made up; the model around it is the real one."""
        rows = len(named["hidden_states"])
        self.asked.append(rows)
        if rows > self.holds:
            raise self.error()

    def after(self, _module: torch.nn.Module, _arguments: Any, output: Any) -> None:
        """A row that overflows: not a number."""
        if self.poison_row is not None and len(output[0]) > self.poison_row:
            output[0][self.poison_row] = float("nan")


@pytest.fixture
def trouble(monkeypatch: pytest.MonkeyPatch) -> Trouble:
    """Hooked into the denoiser of whatever model is built."""
    trouble = Trouble()
    build = Builder.build

    def build_hooked(self: Builder, *arguments: Any) -> Any:
        served = build(self, *arguments)
        served.whole.pipeline.transformer.register_forward_pre_hook(trouble.before, with_kwargs=True)
        served.whole.pipeline.transformer.register_forward_hook(trouble.after)
        return served

    monkeypatch.setattr(Builder, "build", build_hooked)
    return trouble


@pytest.fixture
def engine(trouble: Trouble) -> Iterator[Engine]:
    """An engine whose model is in trouble."""
    torch.set_num_threads(1)
    engine = Engine({"scenes": scenes()}, device="cpu")
    engine.start(warm=["scenes"])
    engine.wait_ready(TIMEOUT_S)
    yield engine
    assert engine.stop(TIMEOUT_S)


def together(engine: Engine, *requests: RenderRequest) -> list[Handle]:
    """Submit them all, and wait until all are done."""
    handles = [engine.submit(request) for request in requests]
    for handle in handles:
        handle.future.exception(TIMEOUT_S)
    return handles


def pixels(handle: Handle) -> Any:
    """The last picture, as signed numbers."""
    return np.asarray(handle.result(0).images[-1]).astype(int)


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_batch_is_halved_and_gives_the_same_pictures(
    engine: Engine, trouble: Trouble, error: Callable[[], Exception]
) -> None:
    """Five images on a device that holds two: five, three, two, two, one; and no more than two from then on."""
    trouble.holds, trouble.error = 2, error
    (five,) = together(engine, ask(seeds=(1, 2, 3, 4, 5), steps=2))
    assert trouble.asked[:5] == [5, 3, 2, 1, 2]
    assert max(trouble.asked[5:]) == 2
    (alone,) = together(engine, ask(seeds=(5,), steps=2))
    assert np.abs(pixels(five) - pixels(alone)).max() <= 1


def test_one_picture_that_does_not_fit_fails_and_the_next_is_served(engine: Engine, trouble: Trouble) -> None:
    """Its error says what was too large; the others were not touched."""
    trouble.holds = 0
    (handle,) = together(engine, ask(seeds=(1, 2)))
    with pytest.raises(OutOfMemoryError, match="64x64"):
        handle.result(0)
    trouble.holds = 9
    assert together(engine, ask())[0].result(0).images


def test_a_row_of_no_numbers_fails_alone(engine: Engine, trouble: Trouble) -> None:
    """The other pictures of the batch are what they are without it."""
    (good,) = together(engine, ask(seeds=(2,)))
    trouble.poison_row = 0
    first, second = together(engine, ask(seeds=(1,)), ask(seeds=(2,), steps=5))
    trouble.poison_row = None
    assert isinstance(first.future.exception(0), BadOutputError)
    assert isinstance(second.future.exception(0), BadOutputError)  # it stood first after the other had left
    (again,) = together(engine, ask(seeds=(2,)))
    assert (pixels(again) == pixels(good)).all()


def test_memory_returns_to_the_base_line(engine: Engine, trouble: Trouble) -> None:
    """After a picture, a row of no numbers, and one that doesn't fit: no tensor of a request is left."""
    together(engine, ask())
    before = _tensors()
    together(engine, ask(seeds=(1, 2, 3)))
    trouble.poison_row = 0
    together(engine, ask())
    trouble.poison_row, trouble.holds = None, 0
    together(engine, ask())
    trouble.holds = 9
    together(engine, ask())
    assert _tensors() == before


def _tensors() -> int:
    gc.collect()
    return sum(1 for item in gc.get_objects() if type(item) is torch.Tensor)


def test_shelf_makes_room_by_letting_go_of_the_model_not_used_for_longest() -> None:
    """Never of one that is in use; of all others where a render needs their memory."""
    settings = EngineSettings(loaded_models=2)
    models = {name: scenes() for name in ("one", "two", "three")}
    shelf = Shelf(models, CPU, Builder(CPU, settings, Unobserved()), settings.loaded_models)
    shelf.load("one", set())
    shelf.load("two", set())
    one = shelf.peek(ask(model="one"))
    assert isinstance(one, LatentModel)
    assert not shelf.can_load("three", {"one", "two"})
    shelf.load("three", {"one"})
    assert shelf.peek(ask(model="two")) is None
    assert shelf.peek(ask(model="one")) is one
    assert shelf.relieve({"one"})
    assert shelf.peek(ask(model="three")) is None
    shelf.clear()
    assert shelf.peek(ask(model="one")) is None


def test_a_step_that_raises_something_else_fails_its_row_alone(engine: Engine, trouble: Trouble) -> None:
    """What a library raises is told by its kind alone."""
    trouble.holds, trouble.error = 0, lambda: KeyError("a secret")
    (handle,) = together(engine, ask())
    error = handle.future.exception(0)
    assert isinstance(error, EngineError)
    assert str(error) == "the render failed: KeyError"
