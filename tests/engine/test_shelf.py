"""Models that can't be loaded, or not warmed: one try, good ones stay, and the engine goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from actors.engine import building
from actors.engine.building import Builder
from actors.engine.devices import Device
from actors.engine.errors import EngineError, ModelUnavailableError, OutOfMemoryError
from actors.engine.observer import Unobserved
from actors.engine.shelf import Shelf
from safelight.config import EngineSettings
from tests.engine.conftest import ask, scenes

CPU = Device("cpu", "cpu")
LOST = "CUDA error: an illegal memory access was encountered"


class _Served:
    """What a shelf needs of a model."""

    stepping = None

    def close(self) -> None:
        """Nothing is held."""

    def stepper(self, _request: Any) -> Any:
        """Itself."""
        return self


class Bench:
    """A shelf over a builder whose models are in trouble, and a clock that stands."""

    def __init__(self, room: int = 2) -> None:
        self.now = 100.0
        self.trouble: dict[str, Callable[[], Exception]] = {}
        self.loads: list[str] = []
        builder: Any = self
        models = {name: scenes() for name in ("a", "b", "c", "broken")}
        self.shelf = Shelf(models, CPU, builder, room, clock=lambda: self.now)

    def build(self, name: str, _model: Any) -> Any:
        """As a ``Builder``."""
        self.loads.append(name)
        if name in self.trouble:
            raise self.trouble[name]()
        return _Served()

    def relieve(self) -> bool:
        """As a ``Builder``."""
        return False

    def loaded(self, *names: str) -> list[bool]:
        """Which of these are loaded."""
        return [self.shelf.peek(ask(model=name)) is not None for name in names]

    def refused(self, kind: type[Exception]) -> Exception:
        """What a load of the broken model raises."""
        with pytest.raises(kind) as caught:
            self.shelf.load("broken", set())
        return caught.value


@pytest.mark.parametrize("kind", [ModelUnavailableError, OutOfMemoryError])
def test_a_load_that_failed_is_not_tried_again_at_once(kind: type[EngineError]) -> None:
    """Twenty requests wait for one load, each with an error of its own; some seconds later it is tried once more."""
    bench = Bench()
    bench.trouble["broken"] = lambda: kind("it says why")
    errors = [bench.refused(kind) for _ in range(20)]
    assert bench.loads == ["broken"]
    assert len({id(error) for error in errors}) == 20
    assert len({str(error) for error in errors}) == 1
    bench.now += 11
    del bench.trouble["broken"]
    bench.shelf.load("broken", set())
    assert bench.loaded("broken") == [True]
    bench.shelf.clear()
    bench.shelf.load("broken", set())
    assert bench.loads == ["broken"] * 3


def test_a_model_that_failed_takes_no_good_one_s_place() -> None:
    """The first failure may cost one; those that follow cost none until it can be loaded."""
    bench = Bench()
    bench.trouble["broken"] = lambda: ModelUnavailableError("gone")
    bench.refused(ModelUnavailableError)
    bench.shelf.load("a", set())
    bench.shelf.load("b", set())
    for _ in range(3):
        bench.now += 11
        bench.refused(ModelUnavailableError)
    assert bench.loaded("a", "b") == [True, True]
    bench.now += 11
    del bench.trouble["broken"]
    bench.shelf.load("broken", set())
    assert bench.loaded("a", "b", "broken") == [False, True, True]


def test_others_go_one_by_one_where_memory_is_what_lacks() -> None:
    """The model not used for longest first."""
    bench = Bench(room=3)
    for name in ("a", "b"):
        bench.shelf.load(name, set())
    bench.trouble["c"] = lambda: torch.OutOfMemoryError("CUDA out of memory")
    with pytest.raises(OutOfMemoryError, match="'c' does not fit into cpu's memory"):
        bench.shelf.load("c", {"b"})
    assert bench.loads == ["a", "b", "c", "c"]
    assert bench.loaded("a", "b") == [False, True]


def test_an_error_that_nobody_foresaw_makes_the_model_unavailable() -> None:
    """With its kind alone; a lost device is another matter."""
    bench = Bench()
    bench.trouble["broken"] = lambda: KeyError("secret")
    assert str(bench.refused(ModelUnavailableError)) == "model 'broken' can't be loaded: KeyError"
    bench.now += 11
    bench.trouble["broken"] = lambda: torch.AcceleratorError(LOST)
    bench.refused(torch.AcceleratorError)


def test_an_error_holds_nothing_of_the_half_loaded_model() -> None:
    """Requests keep their errors for long."""
    bench = Bench()
    bench.trouble["broken"] = lambda: ModelUnavailableError("gone")
    error = bench.refused(ModelUnavailableError)
    assert (error.__cause__, error.__context__) == (None, None)
    frames, traceback = [], error.__traceback__
    while traceback is not None:
        frames.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert "build" not in frames


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), KeyError("x"), OutOfMemoryError("small")], ids=repr
)
def test_a_model_that_can_not_be_warmed_serves_all_the_same(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is only slower at first."""
    torch.set_num_threads(1)

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(building, "warm_up", fail)
    served = Builder(CPU, EngineSettings(compile="regional"), Unobserved()).build("scenes", scenes())
    assert served.stepping is not None
    assert served.stepping.passes.mode != "eager", "the warm-up was left out"


def test_a_device_lost_while_a_model_is_warmed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be had of it."""

    def fail(*_: object) -> None:
        raise torch.AcceleratorError(LOST)

    monkeypatch.setattr(building, "warm_up", fail)
    with pytest.raises(torch.AcceleratorError):
        Builder(CPU, EngineSettings(compile="regional"), Unobserved()).build("scenes", scenes())
