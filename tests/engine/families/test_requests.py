"""What a request leaves open, and what it can't have: each family answers as its plain pipeline does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from actors.engine.errors import InvalidRequestError
from actors.engine.families import family_of
from actors.engine.families.unet import StableDiffusionXL
from actors.engine.latent import LatentModel
from safelight.config import ModelSettings
from tests.engine.families import tiny
from tests.engine.families.company import ask, latent_model, plain, rows_of, walk

TEXTS = ("", "fog", "a red circle " * 40, "ō 😄 飞翔")


@pytest.mark.parametrize("guidance", [None, 0.0, 1.0, 1.001, 7.5])
@pytest.mark.parametrize("negative", [None, "", " ", "fog"])
def test_guidance_and_negative_prompt(model: LatentModel, guidance: float | None, negative: str | None) -> None:
    """Absent, empty or given; too low to guide or just above."""
    request = ask(guidance=guidance, negative_prompt=negative, steps=2)
    assert torch.equal(walk(model, rows_of(model, request))[0].latents, plain(model, request))


@pytest.mark.parametrize("text", TEXTS)
def test_prompts_of_all_kinds(model: LatentModel, text: str) -> None:
    """Empty, too long, beyond the vocabulary; as the negative prompt too."""
    for request in (ask(prompt=text, steps=2), ask(negative_prompt=text, steps=2)):
        assert torch.equal(walk(model, rows_of(model, request))[0].latents, plain(model, request))


def test_settings_that_name_no_family(model: LatentModel) -> None:
    """Arguments then have the pipeline's own names and lengths; stepping takes the same."""
    name = model.family.settings.family
    unnamed = latent_model(name, model.family.pipeline, family="auto", max_sequence_length=None)
    request = ask(steps=2)
    assert torch.equal(walk(unnamed, rows_of(unnamed, request))[0].latents, plain(unnamed, request))


def test_the_length_of_texts_is_the_settings(model: LatentModel) -> None:
    """Where the pipeline takes a length; tokens beyond it have no effect."""
    name = model.family.settings.family
    short = latent_model(name, model.family.pipeline, max_sequence_length=8)
    request = ask(prompt="two big green triangles above a small white circle on the blue background", steps=2)
    assert torch.equal(walk(short, rows_of(short, request))[0].latents, plain(short, request))


@pytest.mark.parametrize("size", [(60, 64), (64, 50), (4, 64)])
def test_sizes_that_the_pipeline_would_round_or_refuse(model: LatentModel, size: tuple[int, int]) -> None:
    """They are refused before anything is done, by their numbers."""
    with pytest.raises(InvalidRequestError, match=f"{size[0]}.*{size[1]}|{size[1]}.*{size[0]}"):
        model.key(ask(width=size[0], height=size[1]))


def test_sizes_beyond_the_table_of_positions() -> None:
    """SD3's transformer would refuse them in the middle of a batch."""
    with pytest.raises(InvalidRequestError, match="no side can be longer than 2048"):
        latent_model("sd3").key(ask(width=2056))


def test_texts_longer_than_the_pipeline_takes() -> None:
    """What its check of arguments says comes through."""
    with pytest.raises(InvalidRequestError, match="cannot be greater than 512"):
        latent_model("flux", max_sequence_length=1000).key(ask())


def test_guidance_as_an_input_of_qwen_image() -> None:
    """Its pipeline wants a second scale then, which requests don't have."""
    model = latent_model("qwen-image")
    model.family.pipeline.transformer.register_to_config(guidance_embeds=True)
    with pytest.raises(InvalidRequestError, match="guidance scale"):
        model.key(ask())


def test_flagged_pictures_are_black(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Stable Diffusion's safety checker is loaded, what it flags is not shown, in previews neither."""
    model = latent_model("sd15")
    monkeypatch.setattr(
        type(model.family.pipeline), "run_safety_checker", lambda _, pictures, *__: (pictures, [True, False])
    )
    with torch.no_grad():
        flagged, fine = model.family.decode_grid(torch.randn(2, 4, 8, 8))
    assert (flagged == -1).all()
    assert (fine != -1).any()


def test_half_precision_vae_of_sdxl_is_float32_from_the_start() -> None:
    """It would overflow; the pipeline turns it back and forth, under the eyes of the thread that decodes."""
    pipeline = tiny.sdxl().to(torch.float16)
    request = ask()
    expected = _decoded(tiny.sdxl().to(torch.float16), torch.ones(1, 4, 6, 8, dtype=torch.float16))
    model = latent_model("sdxl", pipeline, torch.float16)
    assert pipeline.vae.dtype == torch.float32
    with torch.no_grad():
        decoded = model.family.decode(torch.ones(1, 4, 6, 8, dtype=torch.float16), model.key(request))
    assert torch.equal(decoded, expected)


@pytest.mark.parametrize("statistics", [(None, None), ([0.1, 0.2, -0.1, 0.0], [1.5, 0.5, 2.0, 1.0])])
def test_latents_of_sdxl_with_means_of_their_own(statistics: tuple[Any, Any]) -> None:
    """Some VAEs of its kin have a mean and a deviation a channel."""
    pipeline = tiny.sdxl()
    pipeline.vae.register_to_config(latents_mean=statistics[0], latents_std=statistics[1])
    model, request = latent_model("sdxl", pipeline), ask()
    [row] = walk(model, rows_of(model, request))
    with torch.no_grad():
        decoded = (model.family.decode(row.latents, row.key) / 2 + 0.5).clamp(0, 1)
    assert torch.equal(decoded, plain(model, request, "pt"))


def test_a_watermark_is_the_pipeline_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """On pictures, not on previews."""
    model = latent_model("sdxl")
    key = model.key(ask())

    class Mark:
        def apply_watermark(self, pictures: torch.Tensor) -> torch.Tensor:
            return torch.zeros_like(pictures)

    monkeypatch.setattr(model.family.pipeline, "watermark", Mark())
    with torch.no_grad():
        assert (model.family.decode(torch.ones(1, 4, 6, 8), key) == 0).all()
        assert (model.family.decode_grid(torch.ones(1, 4, 6, 8)) != 0).any()


def test_the_denoiser_of_sdxl_is_its_unet_in_all_else() -> None:
    """Whoever compiles or moves it finds what a UNet has."""
    family = latent_model("sdxl").family
    assert isinstance(family, StableDiffusionXL)
    unet = family.pipeline.unet
    assert family.denoiser.config is unet.config
    assert [*family.denoiser.parameters()] == [*unet.parameters()]
    assert family.denoiser is family.denoiser
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = family.denoiser.nothing_of_the_kind


def test_other_pipelines_have_no_family() -> None:
    """They run whole."""
    assert family_of(object(), ModelSettings(model="tiny"), "cpu", torch.float32) is None


def _decoded(pipeline: Any, latents: torch.Tensor) -> torch.Tensor:
    """As SDXL's pipeline does it: VAE and latents in float32."""
    vae = pipeline.vae.to(torch.float32)
    with torch.no_grad():
        decoded: torch.Tensor = vae.decode(latents.float() / vae.config.scaling_factor, return_dict=False)[0]
    return decoded
