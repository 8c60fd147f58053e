"""What rendering takes is known before a weight is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from actors.engine.devices import Device
from actors.engine.errors import ModelUnavailableError
from actors.engine.families import family_of
from actors.engine.latent import Resident
from actors.engine.memory.estimates import Estimator, trial_request
from actors.engine.memory.meters import TrackedPeak
from actors.engine.memory.parts import weights_of
from actors.engine.memory.plans import Activations
from actors.engine.memory.skeletons import build_skeleton
from actors.engine.memory.walk import walk
from safelight.config import ModelSettings
from tests.engine.conftest import load_pipeline, scenes
from tests.engine.families import tiny

CPU = Device("cpu", "cpu")
SIDE = 128
BATCH = 3


def saved(pipeline: Any, folder: Path, family: str) -> ModelSettings:
    """Settings of a pipeline that was written to a folder."""
    pipeline.save_pretrained(folder)
    return ModelSettings(model=str(folder), family=family, dtype="float32", max_sequence_length=24)


def measured(pipeline: Any, settings: ModelSettings) -> Activations:
    """The same work with real tensors."""
    family = family_of(pipeline, settings, "cpu", torch.float32)
    assert family is not None
    return walk(family, trial_request(settings, SIDE, SIDE), BATCH, Resident(), TrackedPeak)


def check(settings: ModelSettings) -> None:
    """What is expected is what is measured."""
    torch.set_num_threads(1)
    need = Estimator(build_skeleton(settings, torch.float32), settings, CPU).need(SIDE, SIDE, BATCH)
    pipeline = load_pipeline(settings, CPU)
    assert need.traced
    assert need.weights == weights_of(pipeline, "none", streams=False)
    real = measured(pipeline, settings)
    for name in ("encode", "step", "decode"):
        assert getattr(need.activations, name) == pytest.approx(getattr(real, name), rel=0.15), name


def test_the_shipped_model() -> None:
    """Within 15% of what real tensors take."""
    check(scenes())


@pytest.mark.parametrize(
    ("build", "family"), [(tiny.sdxl, "sdxl"), (tiny.sd15, "sd15"), (tiny.sd3, "sd3")], ids=["sdxl", "sd15", "sd3"]
)
def test_other_families(build: Callable[[], Any], family: str, tmp_path: Path) -> None:
    """Also with guidance, which doubles the rows."""
    check(saved(build(), tmp_path, family))


def test_a_text_whose_length_is_not_known_counts_as_a_long_one(tmp_path: Path) -> None:
    """Qwen-Image cuts padding off by a mask: never less is expected than a short text takes."""
    settings = saved(tiny.qwen(), tmp_path, "qwen-image")
    need = Estimator(build_skeleton(settings, torch.float32), settings, CPU).need(SIDE, SIDE, BATCH)
    real = measured(load_pipeline(settings, CPU), settings)
    assert need.traced
    assert need.activations.step >= real.step
    assert need.activations.decode == pytest.approx(real.decode, rel=0.15)


def test_a_larger_batch_needs_more_for_steps_alone() -> None:
    """Prompts are encoded and pictures decoded one by one."""
    estimator = Estimator(build_skeleton(scenes(), torch.float32), scenes(), CPU)
    one, four = estimator.need(SIDE, SIDE, 1), estimator.need(SIDE, SIDE, 4)
    assert 3 < four.activations.step / one.activations.step < 5
    assert four.activations.decode == one.activations.decode


def test_half_the_bytes_in_half_the_precision() -> None:
    """The number format counts."""
    device = Device("cuda:0", "a GPU")
    half = scenes(dtype="bfloat16")
    whole = Estimator(build_skeleton(scenes(), torch.float32), scenes(), CPU).need(SIDE, SIDE, 1)
    less = Estimator(build_skeleton(half, torch.bfloat16), half, device).need(SIDE, SIDE, 1)
    assert less.traced
    assert less.weights.denoiser == pytest.approx(whole.weights.denoiser / 2, rel=0.01)
    assert less.activations.step < whole.activations.step


def test_a_pipeline_without_a_family_gets_an_allowance(tmp_path: Path) -> None:
    """And says so."""
    settings = saved(tiny.sdxl(), tmp_path, "auto")
    pipeline = build_skeleton(settings, torch.float32)
    pipeline.__class__ = type("SomeOtherPipeline", (type(pipeline),), {})
    need = Estimator(pipeline, settings, CPU).need(SIDE, SIDE, 1)
    assert not need.traced
    assert need.activations.step > 0


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    """The same words as when it is loaded."""
    with pytest.raises(ModelUnavailableError, match="no model_index"):
        build_skeleton(ModelSettings(model=str(tmp_path)), torch.float32)
