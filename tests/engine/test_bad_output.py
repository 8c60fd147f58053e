"""A model that gives no picture is noticed, and the next request is served."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from actors.engine import Engine
from actors.engine.errors import BadOutputError
from actors.engine.outputs import to_pictures
from tests.engine.conftest import SCENES, TIMEOUT_S, ask, scenes


def poisoned(folder: Path) -> Path:
    """A copy of the shipped model with one weight that is not a number."""
    from safetensors.torch import load_file, save_file

    copy = folder / "poisoned"
    shutil.copytree(SCENES, copy)
    file = copy / "transformer" / "diffusion_pytorch_model.safetensors"
    weights = load_file(file)
    weights["proj_out.bias"][0] = float("nan")
    save_file(weights, file)
    return copy


def test_poisoned_weights_fail_alone(tmp_path: Path) -> None:
    """The other model on the same engine gives its pictures as before."""
    engine = Engine({"scenes": scenes(), "poisoned": scenes(poisoned(tmp_path))}, device="cpu")
    engine.start()
    with pytest.raises(BadOutputError, match="not numbers"):
        engine.submit(ask(model="poisoned", steps=2)).result(TIMEOUT_S)
    assert engine.submit(ask(steps=2)).result(TIMEOUT_S).images
    assert engine.stop(TIMEOUT_S)


def test_one_colour_all_over_is_no_picture() -> None:
    """What half precision leaves after an overflow in the decoder."""
    with pytest.raises(BadOutputError, match="one colour"):
        to_pictures(np.zeros((1, 8, 8, 3), np.float32), 8, 8)


def test_one_bad_image_of_two_fails_the_request() -> None:
    """A job has all its pictures or none."""
    good = np.linspace(0, 1, 8 * 8 * 3, dtype=np.float32).reshape(1, 8, 8, 3)
    with pytest.raises(BadOutputError):
        to_pictures(np.concatenate([good, np.full_like(good, np.nan)]), 8, 8)
    assert to_pictures(good, 8, 8)[0].getpixel((7, 7)) == (252, 254, 255)
