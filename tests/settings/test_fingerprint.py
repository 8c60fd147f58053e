"""What decides the pixels changes the fingerprint, and nothing else does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from jobstore.fingerprint import batch_key, fingerprints
from jobstore.job import CacheMode, JobRequest, PictureFormat
from safelight.config import ModelSettings

MODEL = ModelSettings(model="a/b", family="flux", revision="r1")
REQUEST = JobRequest(model="x", prompt="a cat", width=512, height=512, steps=8, guidance=3.5, seed=1)


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "a cat "},
        {"negative_prompt": "dog"},
        {"width": 528},
        {"height": 528},
        {"steps": 9},
        {"guidance": 3.6},
        {"guidance": None},
        {"n": 2},
    ],
)
def test_a_parameter_of_the_picture_changes_both(change: dict[str, Any]) -> None:
    """Exactly as written: a blank more is another prompt."""
    changed = fingerprints(msgspec.structs.replace(REQUEST, **change), MODEL)
    assert all(one != other for one, other in zip(changed, fingerprints(REQUEST, MODEL), strict=True))


def test_the_seed_changes_the_first_alone() -> None:
    """The second is for whoever takes any seed."""
    exact, seedless = fingerprints(msgspec.structs.replace(REQUEST, seed=2), MODEL)
    assert exact != fingerprints(REQUEST, MODEL)[0]
    assert seedless == fingerprints(REQUEST, MODEL)[1]


@pytest.mark.parametrize(
    "change", [{"revision": "r2"}, {"dtype": "float16"}, {"family": "sd3"}, {"variant": "fp16"}, {"model": "a/c"}]
)
def test_a_trait_of_the_model_changes_both(change: dict[str, Any]) -> None:
    """Other weights, other numbers, other code: another picture."""
    changed = fingerprints(REQUEST, msgspec.structs.replace(MODEL, **change))
    assert all(one != other for one, other in zip(changed, fingerprints(REQUEST, MODEL), strict=True))


@pytest.mark.parametrize(
    "change",
    [{"format": PictureFormat.JPEG}, {"priority": 9}, {"cache": CacheMode.ANY}, {"deadline_s": 5.0}, {"model": "y"}],
)
def test_what_decides_no_pixel_changes_nothing(change: dict[str, Any]) -> None:
    """File format, priority, cache mode, deadline, and the name a model goes by."""
    assert fingerprints(msgspec.structs.replace(REQUEST, **change), MODEL) == fingerprints(REQUEST, MODEL)


def test_the_place_of_a_folder_changes_nothing() -> None:
    """Two hosts may keep the same folder in different places."""
    here, there = (msgspec.structs.replace(MODEL, model=f"/{place}/scenes") for place in ("here", "there"))
    assert fingerprints(REQUEST, here) == fingerprints(REQUEST, there)


def test_the_batch_key_leaves_steps_and_seed_out() -> None:
    """Rows of one batch may differ in them."""
    assert batch_key(msgspec.structs.replace(REQUEST, steps=50, seed=9, guidance=1.0), MODEL) == batch_key(
        REQUEST, MODEL
    )
    assert batch_key(msgspec.structs.replace(REQUEST, width=256), MODEL) != batch_key(REQUEST, MODEL)


def test_seeds_count_up_and_wrap() -> None:
    """Image k alone with its seed is image k."""
    assert msgspec.structs.replace(REQUEST, seed=2**53 - 1, n=3).seeds == (2**53 - 1, 0, 1)
