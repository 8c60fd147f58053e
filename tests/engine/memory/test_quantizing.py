"""A quantised denoiser: fewer bytes, as many as were told before, and nearly the same picture."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed._tools.common_utils import get_untyped_storages

from actors.engine.devices import Device
from actors.engine.errors import ModelUnavailableError
from actors.engine.loading import load_placed
from actors.engine.memory.parts import weights_of
from safelight.config import EngineSettings
from tests.engine.conftest import load_pipeline, scenes

CPU = Device("cpu", "cpu")
KINDS = ("int8", "float8", "layerwise-float8")


def picture(pipeline: Any) -> Any:
    """A small picture, values in 0…1."""
    torch.set_num_threads(1)
    return pipeline(
        "a red circle left of a blue square", width=96, height=96, num_inference_steps=4, guidance_scale=0.0,
        generator=torch.Generator().manual_seed(7), max_sequence_length=24, output_type="np",
    ).images[0]  # fmt: skip


def stored(module: torch.nn.Module) -> int:
    """Bytes that are really there."""
    tensors = (*module.parameters(), *module.buffers())
    return sum(storage.nbytes() for tensor in tensors for storage in get_untyped_storages(tensor))


@pytest.mark.parametrize("kind", KINDS)
def test_a_quantised_model_renders_nearly_the_same(kind: str) -> None:
    """On a CPU too: within 0.005 of 0…1 on average."""
    plain = load_pipeline(scenes(), CPU)
    quantised = load_placed(scenes(quantize=kind), EngineSettings(), CPU).pipeline
    difference = np.abs(picture(quantised) - picture(plain)).mean()
    assert 0 < difference < 0.005


@pytest.mark.parametrize("kind", KINDS)
def test_its_bytes_are_known_before(kind: str) -> None:
    """From the configuration alone; a half of float32 or less is left."""
    plain = load_pipeline(scenes(), CPU)
    expected = weights_of(plain, kind, streams=False).denoiser
    quantised = load_placed(scenes(quantize=kind), EngineSettings(), CPU).pipeline
    assert stored(quantised.transformer) == pytest.approx(expected, rel=0.01)
    assert expected < stored(plain.transformer) / 2


@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_with_a_denoiser_that_comes_block_by_block(kind: str) -> None:
    """The same picture as when all of it stays."""
    whole = load_placed(scenes(quantize=kind), EngineSettings(), CPU).pipeline
    streamed = load_placed(scenes(quantize=kind, memory="grouped"), EngineSettings(), CPU).pipeline
    assert np.array_equal(picture(whole), picture(streamed))


def test_without_torchao_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job fails with words that help."""
    monkeypatch.setitem(sys.modules, "torchao.quantization", None)
    with pytest.raises(ModelUnavailableError, match=r"pip install 'safelight\[quantize\]'"):
        load_placed(scenes(quantize="int8"), EngineSettings(), CPU)
