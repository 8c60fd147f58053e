"""One engine with the small model that ships, for the whole session: loading it takes seconds."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.engine import Engine, RenderRequest
from actors.engine.devices import Device
from actors.engine.loading import load_placed
from safelight.config import EngineSettings, ModelSettings

SCENES = Path(__file__).parents[2] / "models" / "scenes-flux"
TIMEOUT_S = 60.0


def scenes(folder: Path = SCENES, **changes: Any) -> ModelSettings:
    """The shipped model's settings, or the same for another folder."""
    settings: dict[str, Any] = {"family": "flux", "dtype": "float32", "max_sequence_length": 24} | changes
    return ModelSettings(model=str(folder), **settings)


def ask(**changes: Any) -> RenderRequest:
    """A small request, with changes."""
    arguments: dict[str, Any] = {
        "model": "scenes",
        "prompt": "a red circle left of a blue square",
        "width": 64,
        "height": 64,
        "steps": 4,
        "guidance": 0.0,
        "seeds": (7,),
    } | changes
    return RenderRequest(**arguments)


@pytest.fixture(scope="module", autouse=True)
def _frozen_libraries() -> None:
    """What is there before a file's tests is not looked through at every collection, of which the engine asks for many.

    Once for each file: its tests may have been the first to load the compiler.
    """
    from diffusers import FluxPipeline, StableDiffusionPipeline  # noqa: F401

    gc.collect()
    gc.freeze()


def load_pipeline(model: ModelSettings, device: Device) -> Any:
    """A model's pipeline, placed as the engine would place it."""
    return load_placed(model, EngineSettings(), device).pipeline


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """An engine that serves ``scenes``."""
    engine = Engine({"scenes": scenes()}, device="cpu")
    engine.start()
    yield engine
    assert engine.stop(TIMEOUT_S)
