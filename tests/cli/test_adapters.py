"""Adapters on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from safelight.cli.client.submit import adapters_of
from safelight.cli.doctor.adapters import check_adapters
from safelight.cli.doctor.engine import check_models
from safelight.cli.exits import RefusedError
from safelight.config import AdapterSettings, ModelSettings, load_settings
from tests.cli.running import write_settings


def test_names_and_weights() -> None:
    """All with a weight, or none."""
    assert adapters_of([]) == []
    assert adapters_of(["ink", "mist"]) == ["ink", "mist"]
    assert adapters_of(["ink=0.5", "mist=-1"]) == {"ink": 0.5, "mist": -1.0}
    assert adapters_of(["ink=0"]) == {"ink": 0.0}


@pytest.mark.parametrize(
    ("given", "words"),
    [(["ink=0.5", "mist"], "or none"), (["ink=much"], "much"), (["ink=1", "ink=2"], "twice")],
)
def test_what_can_t_be_meant_is_refused(given: list[str], words: str) -> None:
    """Before anything is sent."""
    with pytest.raises(RefusedError, match=words):
        adapters_of(given)


WIDTH = 160  # of the shipped model's layers


def factors(wide: int = WIDTH) -> dict[str, torch.Tensor]:
    """An adapter of one layer of the shipped model, wide as its own or as another's."""
    layer = "transformer.transformer_blocks.0.attn.to_q"
    return {f"{layer}.lora_A.weight": torch.zeros(4, wide), f"{layer}.lora_B.weight": torch.zeros(wide, 4)}


def test_doctor_tells_which_adapters_are_for_their_model(place: Path) -> None:
    """In one row those that fit, in rows of their own those that don't, with what to do; no weight is read for it."""
    for name, tensors in {
        "ink": factors(),
        "chalk": factors(),
        "wide": factors(32),
        "kohya": {"x": torch.ones(1)},
    }.items():
        save_file(tensors, place / f"{name}.safetensors")
    file = Path(write_settings(place)["SAFELIGHT_CONFIG"])
    tables = [
        f'[models.scenes.adapters.{name}]\npath = "{name}.safetensors"' for name in ("ink", "wide", "kohya", "chalk")
    ]
    file.write_text("\n".join([file.read_text(), *tables, '[models.scenes.adapters.far]\npath = "nobody/has-this"']))
    settings = load_settings(file)
    (place / "chalk.safetensors").unlink()
    found = {check.name: check for check in check_models(settings, load=False)}
    assert list(found) == [
        "model scenes", "adapter scenes/chalk", "adapter scenes/far", "adapter scenes/wide", "adapters scenes",
    ]  # fmt: skip
    assert [check.status for check in found.values()] == ["ok", "fail", "warn", "fail", "ok"]
    fitting = found["adapters scenes"]
    assert fitting.detail.startswith("ink, kohya (")
    assert "for this model" in fitting.detail
    assert "is for another model" in found["adapter scenes/wide"].detail
    assert str(place) not in found["adapter scenes/chalk"].detail
    assert all(check.advice for check in found.values() if check.status != "ok")


def test_adapters_of_a_model_that_cannot_be_looked_at(place: Path) -> None:
    """A row says why; it is the model's own row that fails."""
    (place / "model").mkdir()
    (place / "model" / "model_index.json").write_text('{"_class_name": "NoPipeline"}')
    adapters = {"ink": AdapterSettings(path=str(place / "ink.safetensors"))}
    [row] = check_adapters("odd", ModelSettings(model=str(place / "model"), family="auto", adapters=adapters))
    assert (row.name, row.status) == ("adapters odd", "warn")
    assert "NoPipeline" in row.detail
    assert not list(check_adapters("odd", ModelSettings(model=str(place / "model"), family="auto")))
