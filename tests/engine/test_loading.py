"""A model that can't be had: the error says why, and names no path."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.engine import Engine
from actors.engine.devices import Device, choose_dtype
from actors.engine.errors import ModelUnavailableError
from safelight.config import ModelSettings
from tests.engine.conftest import TIMEOUT_S, ask, load_pipeline

CPU = Device("cpu", "cpu")


def test_unknown_model_is_named(engine: Engine) -> None:
    """With the ones that there are."""
    with pytest.raises(ModelUnavailableError, match="'nope' is not served here; known are scenes"):
        engine.submit(ask(model="nope")).result(TIMEOUT_S)


def test_folder_that_is_gone(tmp_path: Path) -> None:
    """It was there when the settings were read."""
    with pytest.raises(ModelUnavailableError, match="'gone' is not there") as caught:
        load_pipeline(ModelSettings(model=str(tmp_path / "gone")), CPU)
    assert str(tmp_path) not in str(caught.value)


def test_folder_of_another_format(tmp_path: Path) -> None:
    """A single checkpoint file is no diffusers folder."""
    with pytest.raises(ModelUnavailableError, match="no model_index"):
        load_pipeline(ModelSettings(model=str(tmp_path)), CPU)


def test_broken_folder(tmp_path: Path) -> None:
    """Weights are missing."""
    (tmp_path / "model_index.json").write_text('{"_class_name": "FluxPipeline", "vae": ["diffusers", "AutoencoderKL"]}')
    with pytest.raises(ModelUnavailableError, match="can't be loaded") as caught:
        load_pipeline(ModelSettings(model=str(tmp_path)), CPU)
    assert str(tmp_path.parent) not in str(caught.value)


def test_hub_model_offline_and_not_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It says that the download is what is missing."""
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelUnavailableError, match="not in the local cache"):
        load_pipeline(ModelSettings(model="nobody/nothing", revision="main"), CPU)


@pytest.mark.parametrize(("kind", "dtype"), [("cuda:0", "bfloat16"), ("cpu", "float32"), ("mps", "float32")])
def test_dtype_auto_follows_the_device(kind: str, dtype: str) -> None:
    """Half precision only where it is fast and safe."""
    assert str(choose_dtype(ModelSettings(model="a/b"), Device(kind, kind))) == f"torch.{dtype}"
