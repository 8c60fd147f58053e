"""Whole pipelines: image to image, inpainting, video, and what is not a picture's affair."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from actors.engine import Engine, StepProgress, Watch
from actors.engine.checkpoints import identity_of, pack
from actors.engine.errors import BadOutputError, CanceledError, InvalidRequestError
from actors.engine.stepping import RowState
from actors.engine.video import to_video
from safelight.config import ModelSettings
from tests.engine.conftest import SCENES, TIMEOUT_S, ask
from tests.engine.test_generic import build


def build_video(folder: Path) -> Path:
    """A Wan text-to-video pipeline of a few thousand weights, saved in diffusers format."""
    import torch
    from diffusers import AutoencoderKLWan, FlowMatchEulerDiscreteScheduler, WanPipeline, WanTransformer3DModel
    from transformers import AutoTokenizer, T5Config, T5EncoderModel

    torch.manual_seed(0)
    vae = AutoencoderKLWan(
        base_dim=3, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True],
    )  # fmt: skip
    transformer = WanTransformer3DModel(
        patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=16, out_channels=16,
        text_dim=32, freq_dim=256, ffn_dim=32, num_layers=1, cross_attn_norm=True, rope_max_seq_len=32,
        qk_norm="rms_norm_across_heads",
    )  # fmt: skip
    text = T5Config(vocab_size=128, d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=4)
    pipeline: Any = WanPipeline(
        tokenizer=AutoTokenizer.from_pretrained(SCENES / "tokenizer_2"), text_encoder=T5EncoderModel(text), vae=vae,
        transformer=transformer, scheduler=FlowMatchEulerDiscreteScheduler(shift=7.0),
    )  # fmt: skip
    pipeline.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with a small model of pictures, and one of videos."""
    folder = tmp_path_factory.mktemp("whole")
    models = {
        "scenes": ModelSettings(model=str(build(folder / "pictures")), family="sd15"),
        "film": ModelSettings(model=str(build_video(folder / "film")), family="auto", fps=8, max_sequence_length=16),
    }
    engine = Engine(models, device="cpu")
    engine.start()
    yield engine
    assert engine.stop(TIMEOUT_S)
    shutil.rmtree(folder)


def stripes(colour: str = "red") -> Image.Image:
    """An input picture of another size than is asked for."""
    picture = Image.new("RGB", (100, 80), "white")
    picture.paste(colour, (0, 0, 50, 80))
    return picture


def test_image_to_image_follows_its_input(engine: Engine) -> None:
    """The same seed over another input is another picture; progress ends with the steps asked for."""
    told: list[StepProgress] = []
    changes: dict[str, Any] = {"steps": 6, "strength": 0.5, "guidance": 5.0}
    red = engine.submit(ask(image=stripes(), **changes), Watch(on_progress=told.append)).result(TIMEOUT_S)
    blue = engine.submit(ask(image=stripes("blue"), **changes)).result(TIMEOUT_S)
    assert red.images[0].size == (64, 64)
    assert red.images[0].tobytes() != blue.images[0].tobytes()
    assert told[-1].step == 6
    plain = engine.submit(ask()).result(TIMEOUT_S)
    assert plain.images[0].tobytes() == engine.submit(ask()).result(TIMEOUT_S).images[0].tobytes()


def test_inpainting_takes_a_mask(engine: Engine) -> None:
    """Other masks, other pictures; all images of the request are there."""
    half, whole = Image.new("L", (64, 64)), Image.new("L", (64, 64), 255)
    half.paste(255, (0, 0, 32, 64))
    changes: dict[str, Any] = {"steps": 4, "strength": 1.0, "guidance": 5.0, "seeds": (1, 2)}
    one = engine.submit(ask(image=stripes(), mask=half, **changes)).result(TIMEOUT_S)
    other = engine.submit(ask(image=stripes(), mask=whole, **changes)).result(TIMEOUT_S)
    assert len(one.images) == 2
    assert one.images[1].tobytes() != other.images[1].tobytes()


def test_inputs_that_a_model_does_not_take_are_named(engine: Engine) -> None:
    """Before anything is rendered."""
    with pytest.raises(InvalidRequestError, match="frames: model 'scenes' takes no number of frames"):
        engine.submit(ask(image=stripes(), frames=9)).result(TIMEOUT_S)
    with pytest.raises(InvalidRequestError, match="strength: model 'scenes' takes no strength"):
        engine.submit(ask(strength=0.5)).result(TIMEOUT_S)
    with pytest.raises(InvalidRequestError, match="image: the model takes no input image"):
        engine.submit(ask(model="film", image=stripes(), frames=5)).result(TIMEOUT_S)


def test_video_is_an_mp4_that_plays(engine: Engine) -> None:
    """Nine frames at the model's rate, read back by a decoder; progress and cancel as for pictures."""
    told: list[int] = []
    request = ask(model="film", width=32, height=32, frames=9, steps=3, guidance=1.0)
    result = engine.submit(request, Watch(on_progress=lambda at: told.append(at.step))).result(TIMEOUT_S)
    (video,) = result.videos
    with av.open(io.BytesIO(video.data), "r") as container:
        frames = list(container.decode(video=0))
        assert container.streams.video[0].average_rate == 8
    assert (len(frames), frames[0].width, frames[0].height) == (9, 32, 32)
    assert (video.frames, video.fps, result.images) == (9, 8, ())
    assert told == [1, 2, 3]
    handle = engine.submit(request, Watch(on_progress=lambda _: handle.cancel()))
    with pytest.raises(CanceledError):
        handle.result(TIMEOUT_S)


def test_a_whole_render_takes_turns_with_steps(engine: Engine) -> None:
    """A picture that steps does not wait for an image-to-image render of many steps."""
    order: list[str] = []
    long = engine.submit(ask(image=stripes(), steps=40, strength=1.0, guidance=5.0))
    quick = engine.submit(ask(steps=2))
    long.future.add_done_callback(lambda _: order.append("long"))
    quick.future.add_done_callback(lambda _: order.append("quick"))
    assert long.result(TIMEOUT_S).images
    assert quick.result(TIMEOUT_S).images
    assert order == ["quick", "long"]


def test_a_checkpoint_is_not_passed_over_in_silence(engine: Engine) -> None:
    """The render begins anew, and its user hears of it once."""
    request = ask(image=stripes(), steps=4, strength=0.5, guidance=5.0)
    checkpoint = pack([RowState(step=2)], identity_of(request, engine._models["scenes"]))
    result = engine.submit(replace(request, checkpoint=checkpoint)).result(TIMEOUT_S)
    assert [warning for warning in result.warnings if "began anew" in warning] == list(result.warnings)
    assert (len(result.warnings), result.resumed_at) == (1, 0)


def test_a_video_without_a_picture_in_it_is_bad_output() -> None:
    """Not a number somewhere, or one colour all over."""
    frames = np.linspace(0, 1, 3 * 16 * 16 * 3, dtype=np.float32).reshape(3, 16, 16, 3)
    assert to_video(frames[:, :15, :15], fps=4).width == 14
    with pytest.raises(BadOutputError, match="one colour"):
        to_video(np.zeros_like(frames), fps=4)
    frames[1, 2, 3] = np.nan
    with pytest.raises(BadOutputError, match="not numbers"):
        to_video(frames, fps=4)
