"""What is refused before anything is rendered: the error names the field, whatever was raised on the way."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from PIL import Image

from actors.engine.devices import Device
from actors.engine.errors import InvalidRequestError, OutOfMemoryError
from actors.engine.latent import LatentModel, Resident
from actors.engine.prompts import check_request
from actors.engine.stepping import Stepper
from actors.engine.whole import WholeModel
from tests.engine.families.company import ask, latent_model

WRONG: dict[str, dict[str, Any]] = {
    "steps": {"steps": 0},
    "width": {"width": 0},
    "height": {"height": -8},
    "seeds: there must be one": {"seeds": ()},
    "seeds: each": {"seeds": (7, 2**64)},
    "seeds: each ": {"seeds": (-(2**70),)},
    "negative_prompt": {"negative_prompt": "\ud83d"},
}


@pytest.fixture(scope="module")
def latent() -> LatentModel:
    """A model that steps."""
    torch.set_num_threads(1)
    return latent_model("flux")


@pytest.fixture(params=["latent", "whole"])
def model(request: pytest.FixtureRequest, latent: LatentModel) -> Stepper:
    """Both ways to render."""
    whole = WholeModel("tiny", latent.family.pipeline, latent.family.settings, Device("cpu", "cpu"), Resident())
    return latent if request.param == "latent" else whole


def cut_off() -> Image.Image:
    """A picture whose file ends in the middle."""
    data = io.BytesIO()
    Image.effect_noise((64, 64), 90).convert("RGB").save(data, "PNG")
    return Image.open(io.BytesIO(data.getvalue()[:4000]))


@pytest.mark.parametrize("field", WRONG)
def test_what_no_model_renders_is_refused_by_name(model: Stepper, field: str) -> None:
    """By every model alike."""
    with pytest.raises(InvalidRequestError, match=field.strip()):
        check_request(ask(**WRONG[field]))
    with pytest.raises(InvalidRequestError, match=field.strip()):
        model.key(ask(**WRONG[field]))


@pytest.mark.parametrize("seed", [0, 2**64 - 1, -(2**63)])
def test_seeds_that_a_generator_takes_are_let_through(seed: int) -> None:
    """The bounds are torch's own."""
    check_request(ask(seeds=(seed,)))
    torch.Generator().manual_seed(seed)


def test_adapters_are_refused_by_a_model_that_has_none(model: Stepper) -> None:
    """They are not left out in silence."""
    with pytest.raises(InvalidRequestError, match="the model has no ink; it has none"):
        model.key(ask(adapters=(("ink", 1.0),)))


@pytest.mark.parametrize("field", ["image", "mask"])
def test_a_picture_that_is_cut_off_is_refused(latent: LatentModel, field: str) -> None:
    """Pillow reads its file when it is converted."""
    model = WholeModel("tiny", latent.family.pipeline, latent.family.settings, Device("cpu", "cpu"), Resident())
    model.accepted |= {"image", "mask_image"}
    with pytest.raises(InvalidRequestError, match=f"{field}: the picture can't be read"):
        model.key(ask(**{field: cut_off()}))


@pytest.mark.parametrize(
    ("error", "kind"), [(KeyError("secret"), InvalidRequestError), (MemoryError(), OutOfMemoryError)], ids=str
)
def test_whatever_a_check_raises_refuses_the_request(
    latent: LatentModel, error: Exception, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pipelines' own checks trip over values in their own ways; what they say stays in the log."""

    def trip(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(type(latent.family), "check", trip)
    with pytest.raises(kind) as caught:
        latent.key(ask())
    assert "secret" not in str(caught.value)


def test_a_pipeline_whose_check_trips_refuses_the_request(latent: LatentModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its word for a bad value may be any exception."""

    def trip(prompt: str, prompt_2: str, height: int, width: int) -> None:
        raise AttributeError(prompt, prompt_2, height, width)

    monkeypatch.setattr(latent.family.pipeline, "check_inputs", trip)
    with pytest.raises(InvalidRequestError, match="refuses the request: AttributeError"):
        latent.family.check(ask())
