"""Each family's pipeline gets the arguments by its own names, and none that it doesn't take."""

from __future__ import annotations

import pytest

from actors.engine.arguments import pipeline_arguments, text_length
from actors.engine.errors import ModelUnavailableError
from safelight.config import ModelSettings
from tests.engine.conftest import ask

NEEDED = {"prompt", "width", "height", "num_inference_steps", "generator"}


def test_flux_takes_its_text_length_and_no_negative_prompt() -> None:
    """Without true CFG a negative prompt does nothing there, and the user is told so."""
    model = ModelSettings(model="a/FLUX.1-dev")
    accepted = NEEDED | {"guidance_scale", "max_sequence_length", "negative_prompt"}
    arguments = pipeline_arguments(ask(guidance=3.5, negative_prompt="fog"), model, accepted)
    assert arguments["guidance_scale"] == 3.5
    assert arguments["max_sequence_length"] == 512


def test_sdxl_takes_a_negative_prompt() -> None:
    """It is passed to the letter."""
    model = ModelSettings(model="a/sdxl-base")
    accepted = NEEDED | {"guidance_scale", "negative_prompt"}
    arguments = pipeline_arguments(ask(guidance=5.0, negative_prompt="fog"), model, accepted)
    assert arguments["negative_prompt"] == "fog"
    assert "max_sequence_length" not in arguments


def test_qwen_image_guides_by_true_cfg() -> None:
    """Which works only beside some negative prompt."""
    model = ModelSettings(model="a/qwen-image")
    accepted = NEEDED | {"guidance_scale", "true_cfg_scale", "negative_prompt", "max_sequence_length"}
    arguments = pipeline_arguments(ask(guidance=4.0), model, accepted)
    assert arguments["true_cfg_scale"] == 4.0
    assert arguments["negative_prompt"] == " "
    assert "guidance_scale" not in arguments


def test_unknown_family_gets_only_what_it_takes() -> None:
    """And no guidance where the request leaves it open."""
    model = ModelSettings(model="a/brand-new")
    arguments = pipeline_arguments(ask(guidance=None, negative_prompt="fog"), model, NEEDED)
    assert set(arguments) == NEEDED - {"generator"}


def test_pipeline_without_prompt_is_refused() -> None:
    """An unconditional model can't serve prompts."""
    with pytest.raises(ModelUnavailableError, match="takes no prompt"):
        pipeline_arguments(ask(), ModelSettings(model="a/ddpm"), NEEDED - {"prompt"})


def test_settings_decide_the_text_length() -> None:
    """Over what the family has."""
    assert text_length(ModelSettings(model="a/FLUX.1-dev", max_sequence_length=24)) == 24
    assert text_length(ModelSettings(model="a/sdxl")) is None
