"""An engine whose model is cut into stages that work at once: pictures that are close, in every company."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pytest
from PIL import Image

from actors.engine import Engine, RenderRequest
from actors.engine.devices import Device
from actors.engine.parallel.group import Group
from actors.engine.request import RenderResult
from safelight.config import EngineSettings, ModelSettings, ParallelSettings
from tests.engine.conftest import TIMEOUT_S, ask, scenes
from tests.engine.families.tiny import FAMILIES

REQUEST = ask(seeds=(1, 2), steps=12)
SIZES = ("64x64",)  # for which blocks are timed


def rendered(request: RenderRequest, devices: int, stride: Literal[1, 2]) -> RenderResult:
    """Its pictures, on so many stages."""
    parallel = ParallelSettings(kind="async", devices=devices, stride=stride)
    engine = Engine({"scenes": scenes(parallel=parallel, sizes=SIZES)}, device="cpu")
    engine.start()
    try:
        return engine.submit(request).result(TIMEOUT_S)
    finally:
        assert engine.stop(TIMEOUT_S)


@pytest.fixture(scope="module")
def staged() -> Iterator[Engine]:
    """An engine that serves ``scenes`` in two stages."""
    parallel = ParallelSettings(kind="async", devices=2)
    engine = Engine({"scenes": scenes(parallel=parallel, sizes=SIZES)}, device="cpu")
    engine.start()
    yield engine
    assert engine.stop(TIMEOUT_S)


@pytest.fixture(scope="module")
def expected(engine: Engine) -> RenderResult:
    """The request's pictures on one device."""
    return engine.submit(REQUEST).result(TIMEOUT_S)


def psnr(result: RenderResult, expected: RenderResult) -> float:
    """Of the picture that differs most, in dB (20 log10(255 / root mean square))."""
    differences = [
        np.asarray(one, float) - np.asarray(other, float)
        for one, other in zip(result.images, expected.images, strict=True)
    ]
    return min(20 * math.log10(255 / max(1e-9, float(np.sqrt((one**2).mean())))) for one in differences)


def test_pictures_are_close_to_those_of_one_device(staged: Engine, expected: RenderResult) -> None:
    """Not the same: or nothing would have been at once."""
    assert 30 < psnr(staged.submit(REQUEST).result(TIMEOUT_S), expected) < 60


def test_three_stages_and_rounds_of_two_steps_are_close_too(expected: RenderResult) -> None:
    """A round that serves two steps differs more."""
    assert 20 < psnr(rendered(REQUEST, 3, 2), expected) < 50


def test_a_row_is_the_same_alone_and_in_its_gang(staged: Engine) -> None:
    """By one of 255 levels at most: as long as the gang begins and ends together."""
    gang = staged.submit(replace(REQUEST, seeds=(1, 2, 3))).result(TIMEOUT_S)
    alone = staged.submit(replace(REQUEST, seeds=(2,))).result(TIMEOUT_S)
    difference = np.abs(np.asarray(gang.images[1], int) - np.asarray(alone.images[0], int))
    assert difference.max() <= 1


def test_few_steps_are_exact(staged: Engine, engine: Engine) -> None:
    """A render that ends with its warm-up is that of one device."""
    request = replace(REQUEST, steps=2)
    assert psnr(staged.submit(request).result(TIMEOUT_S), engine.submit(request).result(TIMEOUT_S)) > 60


def test_a_unet_with_guidance_and_a_pipeline_that_runs_whole(tmp_path: Path) -> None:
    """Skip connections reach the stages that need them; from a picture each step is exact, and so is a warm-up."""
    FAMILIES["sdxl"]().save_pretrained(tmp_path)
    plain = ModelSettings(model=str(tmp_path), family="sdxl", dtype="float32", sizes=SIZES)
    spread = msgspec.structs.replace(plain, parallel=ParallelSettings(kind="async", devices=3))
    engine = Engine({"one": plain, "three": spread}, device="cpu", settings=EngineSettings(loaded_models=2))
    engine.start()
    picture = Image.effect_noise((64, 64), 90).convert("RGB")
    asked = ask(guidance=5.0, negative_prompt="fog", seeds=(1, 2))
    wishes = (
        (replace(asked, steps=2), 60),
        (replace(asked, steps=8), 15),
        (replace(asked, seeds=(3,), image=picture, strength=0.6), 60),
    )
    try:
        for wish, least in wishes:
            one, three = (engine.submit(replace(wish, model=name)) for name in ("one", "three"))
            assert psnr(three.result(TIMEOUT_S), one.result(TIMEOUT_S)) > least
    finally:
        assert engine.stop(TIMEOUT_S)


def test_each_rank_has_its_share_of_the_weights() -> None:
    """And of what all need, the small embeddings of time and text, its own."""
    parallel = ParallelSettings(kind="async", devices=3)
    model, program = scenes(parallel=parallel, sizes=SIZES), "actors.engine.parallel.stages.program:Staged"
    group = Group(model, parallel, EngineSettings(), [Device("cpu", "cpu")] * 3, program, lambda: None)
    group.start()
    try:
        weights = group.weights
    finally:
        group.stop()
    whole = 4 * 3_592_352  # float32
    assert whole <= sum(weights) < 1.15 * whole
    assert max(weights) < 0.6 * whole
