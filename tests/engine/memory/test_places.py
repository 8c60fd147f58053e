"""Parts that come and go: the pictures are the same, and the device is left as it was."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest
import torch

from actors.engine.devices import Device
from actors.engine.embeds import EmbedCache
from actors.engine.families import family_of
from actors.engine.latent import LatentModel
from actors.engine.loading import Loaded, load_placed
from actors.engine.memory.places import Part, Staged
from actors.engine.memory.plans import PLANS, Plan
from actors.engine.passes import Eager
from safelight.config import EngineSettings
from tests.engine.conftest import ask, scenes

CPU = Device("cpu", "cpu")
HERE = torch.device("cpu")


def render(loaded: Loaded) -> Any:
    """A picture, stepped as the engine steps it."""
    torch.set_num_threads(1)
    family = family_of(loaded.pipeline, scenes(), "cpu", torch.float32)
    assert family is not None
    model = LatentModel(
        name="scenes",
        family=family,
        device=CPU,
        embeds=EmbedCache(0),
        passes=Eager(family.denoiser),
        limits=lambda _: 4,
        places=loaded.places,
    )
    (row,) = model.admit(ask()).rows
    while not row.done:
        model.step([row])
    return np.asarray(model.finish(row)[0])


@pytest.mark.parametrize("plan", PLANS)
def test_every_plan_gives_the_same_picture(plan: Plan) -> None:
    """Bit for bit: where a weight lies changes nothing."""
    loaded = load_placed(scenes(memory=plan), EngineSettings(), CPU)
    assert loaded.plan == plan
    assert loaded.graphs_allowed == (plan != "grouped")
    assert np.array_equal(render(loaded), render(load_placed(scenes(), EngineSettings(), CPU)))


def test_the_engine_s_setting_holds_where_the_model_has_none() -> None:
    """``auto`` on a CPU is resident: there is nowhere else to go."""
    assert load_placed(scenes(), EngineSettings(memory="staged"), CPU).plan == "staged"
    assert load_placed(scenes(memory="auto"), EngineSettings(memory="staged"), CPU).plan == "resident"


@pytest.mark.parametrize("plan", PLANS)
def test_nothing_holds_a_model_that_is_let_go(plan: Plan) -> None:
    """Its hooks and copies go with it."""
    loaded = load_placed(scenes(memory=plan), EngineSettings(), CPU)
    render(loaded)
    held = [weakref.ref(weight) for weight in loaded.pipeline.transformer.parameters()]
    loaded.release()
    del loaded
    gc.collect()
    assert not any(weight() is not None for weight in held)


class Watched:
    """A layer that tells whether its weight is away from where it was at first: a device's copy lies elsewhere."""

    def __init__(self) -> None:
        self.layer = torch.nn.Linear(2, 2, bias=False)
        self._home = self.layer.weight.data_ptr()

    def away(self) -> bool:
        """On the device."""
        return self.layer.weight.data_ptr() != self._home


def test_a_part_is_there_only_inside() -> None:
    """Nested users bring it once; the last one lets it go, and it comes back as it was."""
    one = Watched()
    before = one.layer.weight.detach().clone()
    part = Part([one.layer], HERE)
    with part.there():
        place = one.layer.weight.data_ptr()
        with part.there():
            assert one.layer.weight.data_ptr() == place
        assert one.away()
    assert not one.away()
    assert torch.equal(one.layer.weight, before)


def test_weights_that_came_later_move_too() -> None:
    """Adapters add some."""
    first, later = Watched(), Watched()
    module = torch.nn.Sequential(first.layer)
    part = Part([module], HERE)
    module.append(later.layer)
    with part.there():
        assert first.away()
        assert later.away()
    assert not first.away()
    assert not later.away()


def test_a_weight_of_two_names_stays_one() -> None:
    """Tied embeddings."""
    one, other = torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False)
    other.weight = one.weight
    with Part([one, other], HERE).there():
        assert other.weight is one.weight
        assert other.weight.data_ptr() == one.weight.data_ptr()


def test_a_device_without_room_leaves_all_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a part there would be no use, and in the way."""
    first, second = Watched(), Watched()
    part = Part([first.layer, second.layer], HERE)
    copy = torch.Tensor.to

    def full(tensor: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        if first.away():
            raise torch.OutOfMemoryError("made up")
        return copy(tensor, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "to", full)
        with pytest.raises(torch.OutOfMemoryError), part.there():
            pass
    assert not first.away()
    with part.there():
        assert second.away()


def test_encoding_and_decoding_do_not_wait_for_each_other() -> None:
    """They happen on two threads at the same time, each with its own part."""
    encoder, decoder = Watched(), Watched()
    places = Staged([encoder.layer], [decoder.layer], HERE)
    both = threading.Barrier(2, timeout=10)
    seen: list[tuple[bool, bool]] = []

    def decode() -> None:
        with places.decoding():
            both.wait()
            seen.append((encoder.away(), decoder.away()))
            both.wait()

    thread = threading.Thread(target=decode)
    thread.start()
    with places.encoding():
        both.wait()
        both.wait()
    thread.join()
    assert seen == [(True, True)]
    assert (encoder.away(), decoder.away()) == (False, False)


def test_many_threads_share_a_part() -> None:
    """However they come and go, whoever is inside finds it there."""
    one = Watched()
    part = Part([one.layer], HERE)
    found: list[bool] = []

    def use() -> None:
        for _ in range(200):
            with part.there():
                found.append(one.away())

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 800
    assert not one.away()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("plan", PLANS)
def test_memory_returns_to_where_it_was(plan: Plan) -> None:
    """After a model was used and let go."""
    device = Device("cuda:0", "cuda")
    before = torch.cuda.memory_allocated()
    loaded = load_placed(scenes(memory=plan), EngineSettings(), device)
    with torch.no_grad(), loaded.places.encoding(), loaded.places.decoding():
        loaded.pipeline("a red circle", width=64, height=64, num_inference_steps=2, guidance_scale=0.0,
                        max_sequence_length=24)  # fmt: skip
    loaded.release()
    del loaded
    gc.collect()
    assert torch.cuda.memory_allocated() <= before + 10_000_000
