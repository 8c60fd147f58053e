"""The weights of one stage are read, and no others, however the files are laid out."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from actors.engine.devices import Device
from actors.engine.parallel.denoisers import Denoiser
from actors.engine.parallel.stages.share import read_share
from actors.engine.parallel.stages.tracing import blocks_of
from safelight.config import ModelSettings
from tests.engine.families import tiny

CPU = Device("cpu", "cpu")


@pytest.fixture(scope="module")
def unet() -> torch.nn.Module:
    """SDXL's, tiny."""
    found: torch.nn.Module = tiny.FAMILIES["sdxl"]().unet
    return found


@pytest.mark.parametrize(
    "layout",
    [{"variant": "fp16"}, {"max_shard_size": "40KB"}, {"safe_serialization": False}],
    ids=["one file", "sharded", "no safetensors"],
)
def test_only_the_stage_s_weights_are_there(unet: torch.nn.Module, tmp_path: Path, layout: dict[str, object]) -> None:
    """Those of its blocks and no others, in the number format of the settings."""
    unet.save_pretrained(tmp_path / "unet", **layout)  # type: ignore[operator]
    (tmp_path / "model_index.json").write_text("{}")
    model = ModelSettings(model=str(tmp_path), family="sdxl", variant=layout.get("variant"))  # type: ignore[arg-type]
    found = Denoiser("unet", type(unet), dict(vars(unet)["_internal_dict"]), "")
    blocks = frozenset(name for name, _ in list(blocks_of(unet))[:7])
    module = read_share(found, model, CPU, torch.float32, blocks)
    expected = unet.state_dict()
    for name, tensor in module.state_dict().items():
        own = any(name.startswith(f"{block}.") for block in blocks)
        assert tensor.is_meta != own, name
        assert not own or torch.equal(tensor, expected[name]), name
