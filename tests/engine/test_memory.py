"""Out of memory: the batch is halved and goes on; one picture alone that doesn't fit fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from actors.engine.devices import Device
from actors.engine.errors import CanceledError, EngineError, OutOfMemoryError
from actors.engine.loading import load_pipeline
from actors.engine.progress import ImageProgress
from actors.engine.request import RenderResult, StepProgress
from actors.engine.shelf import LoadedModel, Shelf
from actors.engine.static import render
from tests.engine.conftest import ask, scenes

CPU = Device("cpu", "cpu")
ERRORS = (
    torch.OutOfMemoryError("made up"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
)


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    """The shipped model on the CPU."""
    torch.set_num_threads(1)
    return LoadedModel(scenes(), load_pipeline(scenes(), CPU), CPU)


@pytest.fixture
def small_device(model: LoadedModel, request: pytest.FixtureRequest) -> Iterator[list[int]]:
    """The denoiser runs out of memory above so many images, with such an error; gives the batch sizes asked of it.

    Only the device's limit is made up: the pipeline around it is the real one.
    """
    asked: list[int] = []
    holds, error = request.param

    def limit(_module: torch.nn.Module, _arguments: Any, named: dict[str, Any]) -> None:
        asked.append(len(named["hidden_states"]))
        if asked[-1] > holds:
            raise error

    hook = model.pipeline.transformer.register_forward_pre_hook(limit, with_kwargs=True)
    yield asked
    hook.remove()


def run(model: LoadedModel, steps: list[int], *seeds: int, stop: EngineError | None = None) -> RenderResult:
    """Render these seeds in two steps; ``stop`` is what every checkpoint says."""
    request = ask(seeds=seeds, steps=2)

    def tell(progress: StepProgress) -> None:
        steps.append(progress.step)

    return render(request, model, lambda: stop, ImageProgress(len(seeds), 2, tell))


@pytest.mark.parametrize("small_device", [(2, error) for error in ERRORS], indirect=True, ids=["cuda", "cpu"])
def test_batch_is_halved_and_gives_the_same_pictures(model: LoadedModel, small_device: list[int]) -> None:
    """Five images on a device that holds two: batches of five, three, two, two, one."""
    steps: list[int] = []
    result = run(model, steps, 1, 2, 3, 4, 5)
    assert small_device == [5, 3, 2, 2, 2, 2, 1, 1]
    assert len(result.images) == 5
    assert steps == [1, 2]
    alone = run(model, [], 4)
    difference = np.asarray(alone.images[0]).astype(int) - np.asarray(result.images[3]).astype(int)
    assert np.abs(difference).max() <= 1


@pytest.mark.parametrize("small_device", [(0, ERRORS[0])], indirect=True)
def test_single_picture_that_does_not_fit_fails(model: LoadedModel, small_device: list[int]) -> None:
    """Its error says what was too large."""
    with pytest.raises(OutOfMemoryError, match="64x64"):
        run(model, [], 1, 2)
    assert small_device == [2, 1]


def test_model_serves_after_running_out_of_memory(model: LoadedModel) -> None:
    """Nothing stays behind on the pipeline."""
    assert run(model, [], 1).images


def test_stop_before_the_first_step_costs_no_device_time(model: LoadedModel) -> None:
    """The pipeline isn't even called."""
    with pytest.raises(CanceledError):
        run(model, [], 1, stop=CanceledError("asked to"))


def test_shelf_makes_room_by_letting_go_of_the_model_not_used_for_longest() -> None:
    """And of all others where a render needs their memory."""
    shelf = Shelf({name: scenes() for name in ("one", "two", "three")}, CPU, room=2)
    one = shelf.get("one")
    shelf.get("two")
    assert shelf.get("one") is one
    shelf.get("three")
    assert shelf.get("one") is one
    assert shelf.others("one")
    shelf.keep_only("one")
    assert not shelf.others("one")
    assert shelf.get("one") is one
