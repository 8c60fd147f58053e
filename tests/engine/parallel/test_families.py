"""Other families on two ranks: guidance branches side by side, whole pipelines, and text of any length."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from actors.engine import Engine
from safelight.config import EngineSettings, ModelSettings, ParallelSettings
from tests.engine.conftest import TIMEOUT_S, ask
from tests.engine.families.tiny import FAMILIES
from tests.engine.parallel.alike import check_alike

SPREAD = {"sdxl": "cfg", "sd3": "cfg", "qwen-image": "ulysses"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Each family on one device, under its name, and on two, under its name and ``-spread``."""
    models = {}
    for family, kind in SPREAD.items():
        folder = tmp_path_factory.mktemp(family)
        FAMILIES[family]().save_pretrained(folder)
        models[family] = _settings(folder, family)
        models[f"{family}-spread"] = _settings(folder, family, parallel=ParallelSettings(kind=kind, devices=2))  # type: ignore[arg-type]
    engine = Engine(models, device="cpu", settings=EngineSettings(loaded_models=len(models)))
    engine.start()
    yield engine
    assert engine.stop(TIMEOUT_S)


def _settings(folder: Path, family: str, **more: Any) -> ModelSettings:
    length = 24 if family == "sd3" else None
    return ModelSettings(model=str(folder), family=family, dtype="float32", max_sequence_length=length, **more)


@pytest.mark.parametrize("family", SPREAD)
def test_pictures_are_those_of_one_device(engine: Engine, family: str) -> None:
    """With guidance and without, rows of their own, and from a picture: that pipeline runs whole."""
    picture = Image.effect_noise((64, 64), 90).convert("RGB")
    asked: tuple[dict[str, Any], ...] = (
        {"guidance": 5.0, "negative_prompt": "a blue square", "seeds": (1, 2)},
        {"guidance": 1.0, "seeds": (1, 2, 3)},
        {"guidance": 5.0, "prompt": "a red circle", "image": picture, "strength": 0.6},
    )
    for wish in asked:
        one, two = (engine.submit(ask(model=name, **wish)) for name in (family, f"{family}-spread"))
        check_alike(two.result(TIMEOUT_S), one.result(TIMEOUT_S))
