"""A whole pipeline beside rows that step: what they share stays each one's own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from actors.engine import served as serving
from actors.engine.building import Builder
from actors.engine.devices import Device
from actors.engine.errors import CheckpointError, ContentFilteredError, InvalidRequestError, OutOfMemoryError
from actors.engine.latent import LatentModel, Resident
from actors.engine.loading import load_placed
from actors.engine.memory.places import Staged
from actors.engine.observer import Unobserved
from actors.engine.request import RenderRequest
from actors.engine.served import ServedModel, derive
from actors.engine.stepping import Row, RowState, Stepper
from actors.engine.whole import WholeModel
from safelight.config import AdapterSettings, EngineSettings, ModelSettings
from tests.engine.conftest import ask, scenes
from tests.engine.families.company import latent_model
from tests.engine.test_adapters import write

CPU = Device("cpu", "cpu")


def input_picture() -> Image.Image:
    """Something to begin at."""
    return Image.radial_gradient("L").resize((64, 64)).convert("RGB")


def row_of(model: Stepper, request: RenderRequest) -> Row:
    """The request's only row."""
    (row,) = model.admit(request).rows
    return row


def render(model: Stepper, request: RenderRequest, beside: Any = lambda: None) -> Any:
    """The request's picture, as numbers; ``beside`` is called before each of its steps."""
    row = row_of(model, request)
    while not row.done:
        beside()
        model.step([row])
    return np.asarray(model.finish(row)[0]).astype(int)


def serve(model: LatentModel) -> ServedModel:
    """A model that steps, and what derives others from it."""

    def whole(pipeline: Any) -> WholeModel:
        return WholeModel("tiny", pipeline, model.family.settings, CPU, Resident())

    return ServedModel(whole(model.family.pipeline), model, whole, lambda: None)


def test_adapters_act_in_every_step_of_their_own_render(tmp_path: Path) -> None:
    """Rows without any step between its steps, and switch them off each time."""
    torch.set_num_threads(1)
    settings = scenes(adapters={"ink": AdapterSettings(path=str(write(tmp_path, "ink", 1)))})
    served = Builder(CPU, EngineSettings(compile="off"), Unobserved()).build("scenes", settings)
    request = ask(image=input_picture(), strength=0.9, steps=6, adapters=(("ink", 1.0),))
    image, plain = served.stepper(request), served.stepper(ask())
    alone = render(image, request)
    other = row_of(plain, ask(steps=40))
    assert np.abs(render(image, request, lambda: plain.step([other])) - alone).max() <= 1
    assert np.abs(render(image, ask(image=input_picture(), strength=0.9, steps=6)) - alone).max() > 10


def test_a_render_whose_adapter_is_gone_ends_its_call(tmp_path: Path) -> None:
    """The pipeline's thread does not wait for ever, and the row begins anew."""

    class Gone:
        def __init__(self) -> None:
            self.left = 2

        def check(self, _wanted: Any) -> None:
            pass

        def use(self, _wanted: Any) -> None:
            self.left -= 1
            if self.left < 0:
                raise OutOfMemoryError("made up")

    pipeline = derive(load_placed(scenes(), EngineSettings(), CPU).pipeline, "image", {})
    model = WholeModel("scenes", pipeline, scenes(), CPU, Resident(), Gone())
    row: Any = row_of(model, ask(image=input_picture(), strength=1.0))
    model.step([row])
    model.step([row])
    call = row.call
    with pytest.raises(OutOfMemoryError):
        model.step([row])
    assert call.done
    assert (row.call, row.step) == (None, 0)


@pytest.mark.parametrize("name", ["qwen-image", "sdxl"])
def test_a_derived_pipeline_has_a_vae_of_its_own_where_decodes_would_meet(name: str) -> None:
    """Qwen-Image's keeps frames on itself; SDXL's is cast to float32 and back in half precision, and stays so here."""
    dtype = torch.float32 if name == "qwen-image" else torch.bfloat16
    model = latent_model(name)
    model.family.dtype = dtype
    served = serve(model)
    request = ask(model="tiny", image=input_picture(), strength=0.9)
    derived: Any = served.stepper(request)
    shared = model.family.pipeline.vae
    assert derived.pipeline.vae is not shared
    assert derived.pipeline.transformer is model.family.pipeline.transformer if name == "qwen-image" else True
    assert (derived.pipeline.vae.dtype, shared.dtype) == (dtype, torch.float32)
    if name == "qwen-image":
        inpainting: Any = served.stepper(ask(model="tiny", image=input_picture(), mask=input_picture(), strength=0.9))
        assert inpainting.pipeline.vae is derived.pipeline.vae  # one whole render at a time


def test_a_vae_that_keeps_nothing_is_shared() -> None:
    """A copy would cost its memory."""
    model = latent_model("flux")
    derived: Any = serve(model).stepper(ask(model="tiny", image=input_picture(), strength=0.9))
    assert derived.pipeline.vae is model.family.pipeline.vae


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), OutOfMemoryError),
        (ValueError("no pipeline"), InvalidRequestError),
        (KeyError("vae"), InvalidRequestError),
        (torch.AcceleratorError("CUDA error: an illegal memory access was encountered"), torch.AcceleratorError),
    ],
    ids=["memory", "none", "other", "lost"],
)
def test_what_goes_wrong_in_deriving_is_told_by_its_kind(
    error: Exception, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but a lost device ends the engine's thread."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(serving, "derive", fail)
    with pytest.raises(kind):
        serve(latent_model("flux")).stepper(ask(model="tiny", image=input_picture(), strength=0.9))


def test_text_encoders_leave_at_the_first_step() -> None:
    """Under ``staged`` they would take their room beside the whole render; the VAE is wanted at its end."""
    loaded = load_placed(scenes(memory="staged"), EngineSettings(), CPU)
    model = WholeModel("scenes", derive(loaded.pipeline, "image", {}), scenes(), CPU, loaded.places)
    row = row_of(model, ask(image=input_picture(), strength=1.0))
    assert isinstance(loaded.places, Staged)
    users: list[tuple[int, int]] = []
    while not row.done:
        model.step([row])
        users.append((loaded.places._encoders._users, loaded.places._decoders._users))
    assert users == [(0, 1)] * 4 + [(0, 0)]


def test_a_checkpoint_is_refused_so_that_its_user_hears_of_it() -> None:
    """A pipeline begins anew."""
    model = WholeModel("scenes", load_placed(scenes(), EngineSettings(), CPU).pipeline, scenes(), CPU, Resident())
    with pytest.raises(CheckpointError):
        model.restore(row_of(model, ask()), RowState(step=2))


@pytest.mark.parametrize("flags", [None, [False], [True]])
def test_a_picture_that_the_safety_checker_flags(flags: list[bool] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no broken picture: the error says so, in steps and in whole pipelines; previews are black."""
    model = latent_model("sd15")
    pipeline = model.family.pipeline
    monkeypatch.setattr(pipeline, "run_safety_checker", lambda images, *_: (images, flags), raising=False)
    latents, key = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(0)), model.key(ask(model="tiny"))
    whole = WholeModel("tiny", pipeline, ModelSettings(model="tiny", family="sd15"), CPU, Resident())
    with torch.no_grad():
        preview = model.family.decode_grid(latents)
    assert bool((preview == -1).all()) == (flags == [True])
    if flags == [True]:
        with torch.no_grad(), pytest.raises(ContentFilteredError, match="safety checker"):
            model.family.decode(latents, key)
        with pytest.raises(ContentFilteredError):
            render(whole, ask(model="tiny"))
    else:
        with torch.no_grad():
            assert torch.equal(model.family.decode(latents, key), preview)
        assert render(whole, ask(model="tiny")).shape == (64, 64, 3)


def test_deepfloyd_calls_its_flags_by_another_name() -> None:
    """Both names count."""
    from actors.engine.whole import _flagged

    assert list(_flagged(SimpleNamespace(nsfw_detected=[True]))) == [True]
    assert list(_flagged(SimpleNamespace(nsfw_content_detected=[False, True]))) == [False, True]
    assert list(_flagged(SimpleNamespace())) == []
