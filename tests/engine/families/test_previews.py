"""Small pictures of rows on their way: of every family and shape, and near what comes of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from diffusers import FluxPipeline
from PIL import Image

from actors.engine.latent import LatentModel
from actors.engine.previews import small_picture
from tests.engine.conftest import SCENES
from tests.engine.families.company import ask, latent_model, rows_of, walk

# Pixels of the picture, and the least and most pixels of a side of its preview.
SIZES = [(16, 16), (64, 48), (240, 16), (336, 176), (512, 16), (16, 1040), (1040, 720), (2048, 256)]


@pytest.mark.parametrize("size", SIZES)
def test_sides_are_of_256_pixels_at_most_or_so(model: LatentModel, size: tuple[int, int]) -> None:
    """In the picture's shape, but for the last row of latents; also where a side is down to one of them."""
    width, height = size
    request = ask(width=width, height=height, steps=2)
    [row] = model.family.rows(request, {})
    with torch.no_grad():
        picture = small_picture(model.family, row.latents, row.key)
    factor = max(1, round(max(size) / 256))
    assert max(picture.size) <= 256 * 1.5
    assert picture.size == (-(-width // 8 // factor) * 8, -(-height // 8 // factor) * 8)


def test_a_preview_is_of_its_moment(model: LatentModel) -> None:
    """It is made elsewhere and later, of what the row was."""
    [row] = walk(model, rows_of(model, ask()), steps=2)
    now, later = model.preview(row), model.preview(row)
    assert now is not None
    assert later is not None
    early = now()
    walk(model, [row])
    assert np.array_equal(np.asarray(later()), np.asarray(early))


def test_a_preview_before_the_first_step_is_noise(model: LatentModel) -> None:
    """There is nothing else to show yet, and no error."""
    [row] = rows_of(model, ask())
    make = model.preview(row)
    assert make is not None
    assert make().size == (64, 48)


def test_several_threads_decode_at_a_time(model: LatentModel) -> None:
    """Pictures and previews may; Qwen-Image's VAE keeps frames on itself meanwhile."""
    rows = rows_of(model, ask(seeds=(1, 2, 3, 4)))
    expected = [np.asarray(model.finish(row)[0]) for row in rows]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            pictures = pool.map(lambda row: np.asarray(model.finish(row)[0]), rows)
            assert all(np.array_equal(one, other) for one, other in zip(pictures, expected, strict=True))


def test_numbers_that_are_none_are_no_error(flux: LatentModel) -> None:
    """A walk that overflowed is told of at its end; until then its previews are black."""
    [row] = rows_of(flux, ask())
    with torch.no_grad():
        picture = small_picture(flux.family, torch.full_like(row.latents, float("nan")), row.key)
    assert picture.getextrema() == ((0, 0), (0, 0), (0, 0))


@pytest.mark.parametrize("side", [128, 384])
def test_late_previews_are_near_the_picture(scenes_model: LatentModel, side: int) -> None:
    """With trained weights: nearer with every quarter of the walk, and at its end nearly there."""
    request = ask(prompt="a red circle left of a blue square", width=side, height=side, steps=8, guidance=0.0)
    [row] = rows_of(scenes_model, request)
    previews = []
    while not row.done:
        walk(scenes_model, [row], steps=2)
        make = scenes_model.preview(row)
        assert make is not None
        previews.append(make())
    [picture] = scenes_model.finish(row)
    gaps = [_gap(preview, picture) for preview in previews]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] < 4
    assert gaps[-1] < 1


@pytest.fixture(scope="module")
def scenes_model() -> LatentModel:
    """The model that ships."""
    pipeline = FluxPipeline.from_pretrained(SCENES, dtype=torch.float32)
    return latent_model("flux", pipeline)


def _gap(preview: Image.Image, picture: Image.Image) -> float:
    """The mean difference, of 256 levels, once the picture is as small as the preview."""
    small = picture.resize(preview.size, Image.Resampling.BOX)
    return float(np.abs(np.asarray(small, np.int16) - np.asarray(preview, np.int16)).mean())
