"""A family of another kind through the generic path: a random-weights Stable Diffusion with negative prompts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.engine import Engine, Watch
from actors.engine.errors import CanceledError, InvalidRequestError
from safelight.config import ModelSettings
from tests.engine.conftest import SCENES, TIMEOUT_S, ask


def build(folder: Path) -> Path:
    """A Stable Diffusion 1.5 pipeline of a few thousand weights, saved in diffusers format."""
    import torch
    from diffusers import (
        AutoencoderKL,
        DPMSolverMultistepScheduler,
        StableDiffusionPipeline,
        UNet2DConditionModel,
    )
    from transformers import AutoTokenizer, CLIPTextConfig, CLIPTextModel

    torch.manual_seed(0)
    text = CLIPTextConfig(
        vocab_size=109, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=3,
    )  # fmt: skip
    unet = UNet2DConditionModel(
        sample_size=8, block_out_channels=(8, 16), layers_per_block=1, cross_attention_dim=16, norm_num_groups=4,
        attention_head_dim=4, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    vae = AutoencoderKL(
        block_out_channels=(8, 8, 8, 8), norm_num_groups=4, sample_size=64, layers_per_block=1,
        down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
    )  # fmt: skip
    pipeline: Any = StableDiffusionPipeline(
        vae=vae, text_encoder=CLIPTextModel(text), tokenizer=AutoTokenizer.from_pretrained(SCENES / "tokenizer"),
        unet=unet, scheduler=DPMSolverMultistepScheduler(steps_offset=1), safety_checker=None, feature_extractor=None,
        requires_safety_checker=False,
    )  # fmt: skip
    pipeline.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=["sd15", "auto"])
def generic(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine that serves the tiny model, as the family it is and as one unknown."""
    folder = build(tmp_path_factory.mktemp("generic"))
    engine = Engine({"scenes": ModelSettings(model=str(folder), family=request.param)}, device="cpu")
    engine.start()
    yield engine
    assert engine.stop(TIMEOUT_S)
    shutil.rmtree(folder)


def picture(
    engine: Engine, *seeds: int, negative: str | None = None
) -> np.ndarray[tuple[int, ...], np.dtype[np.int16]]:
    """The last image of these seeds, as signed numbers."""
    request = ask(seeds=seeds, guidance=7.5, negative_prompt=negative)
    return np.asarray(engine.submit(request).result(TIMEOUT_S).images[-1]).astype(np.int16)


def test_negative_prompt_reaches_the_model(generic: Engine) -> None:
    """It changes the picture, and the same one gives the same picture."""
    plain, negative = picture(generic, 3), picture(generic, 3, negative="a blue square")
    assert (plain != negative).any()
    assert (negative == picture(generic, 3, negative="a blue square")).all()


def test_batched_and_alone_are_one_picture(generic: Engine) -> None:
    """Also behind a scheduler that keeps a history of steps."""
    assert np.abs(picture(generic, 1, 2, 3) - picture(generic, 3)).max() <= 2


def test_what_the_pipeline_refuses_is_an_invalid_request(generic: Engine) -> None:
    """Its own check of arguments speaks before the first step."""
    with pytest.raises(InvalidRequestError, match="divisible by 8"):
        generic.submit(ask(width=60)).result(TIMEOUT_S)


def test_cancel_leaves_no_history_behind(generic: Engine) -> None:
    """The multistep scheduler starts anew."""
    before = picture(generic, 3)
    handle = generic.submit(ask(steps=50), Watch(on_progress=lambda _: handle.cancel()))
    with pytest.raises(CanceledError):
        handle.result(TIMEOUT_S)
    assert (picture(generic, 3) == before).all()
