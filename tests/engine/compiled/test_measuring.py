"""A loaded model is warmed and measured with rows of its own making."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from actors.engine.compiled import measuring
from actors.engine.compiled.graphs import GraphedPasses
from actors.engine.compiled.knee import Timing
from actors.engine.compiled.measuring import measure_knee, synthetic_rows, warm_up
from actors.engine.devices import Device
from actors.engine.embeds import EmbedCache
from actors.engine.families import family_of
from actors.engine.latent import LatentModel
from actors.engine.passes import Eager
from actors.engine.stepping import Row
from tests.engine.compiled.tiny import CPU, Listener, StandIn
from tests.engine.conftest import ask, load_pipeline, scenes

DEVICE = Device("cpu", "cpu")


@pytest.fixture(scope="module")
def model() -> LatentModel:
    """The model that ships."""
    torch.set_num_threads(1)
    settings = scenes()
    family = family_of(load_pipeline(settings, DEVICE), settings, "cpu", torch.float32)
    assert family is not None
    return LatentModel(
        name="tiny",
        family=family,
        device=DEVICE,
        embeds=EmbedCache(1_000_000),
        passes=Eager(family.denoiser),
        limits=lambda _key: 4,
    )


def test_rows_of_its_own_making(model: LatentModel) -> None:
    """As many as are asked for, all of one key, each with noise of its own."""
    rows = synthetic_rows(model, ask(), 3)
    assert len({row.key for row in rows}) == 1
    assert len({float(row.latents.sum()) for row in rows}) == 3


def test_the_knee_of_a_real_model(model: LatentModel) -> None:
    """Its table is kept and told as it grows; the choice is one of it."""
    heard: list[Timing] = []
    knee = measure_knee(model, ask(), 2, heard.append)
    assert knee is not None
    assert list(knee.timings) == heard
    assert [timing.rows for timing in heard] == [1, 2]
    assert knee.rows in {1, 2}
    assert all(timing.seconds > 0 for timing in heard)


def test_out_of_memory_ends_it(model: LatentModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch that did not fit is not in the table; other errors are raised."""
    step, error = LatentModel.step, torch.OutOfMemoryError("out of memory")

    def limited(self: LatentModel, rows: Sequence[Row]) -> int:
        if len(rows) > 1:
            raise error
        return step(self, rows)

    monkeypatch.setattr(measuring, "_STEPS", 5)
    monkeypatch.setattr(LatentModel, "step", limited)
    knee = measure_knee(model, ask(), 4)
    assert knee is not None
    assert (knee.rows, knee.full) == (1, True)
    error = RuntimeError("broken")  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="broken"):
        measure_knee(model, ask(), 4)


def test_a_warmed_model_replays_at_once(model: LatentModel, tmp_path: Path) -> None:
    """Up to the limit of its key."""
    capture, listener = StandIn(), Listener()
    arguments: dict[str, Any] = {"limit_bytes": 10**9, "max_batch": 8, "model": "tiny", "device": CPU}
    passes = GraphedPasses(
        denoiser=model.family.denoiser,
        otherwise=Eager(model.family.denoiser),
        capture=capture,
        observer=listener,
        **arguments,
    )
    warm_up(model, passes, ask())
    assert capture.captured == [4, 2, 1]
    model.passes = passes
    assert model.step(synthetic_rows(model, ask(), 3)) == 1
    assert listener.events == {"capture": 3, "replay": 1}
