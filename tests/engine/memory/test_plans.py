"""Which plan is taken for how much memory."""

from __future__ import annotations

import pytest

from actors.engine.devices import Device
from actors.engine.memory import planning
from actors.engine.memory.plans import Activations, Need, Plan, Weights, choose, graphs_allowed
from safelight.config import EngineSettings
from tests.engine.conftest import load_pipeline, scenes

GB = 1_000_000_000


def flux_like(batch: int) -> Need:
    """About FLUX.1 in bfloat16 at 1024x1024."""
    weights = Weights(encoders=10 * GB, denoiser=24 * GB, vae=GB // 5, others=0, streamed=2 * GB)
    return Need(weights=weights, activations=Activations(encode=GB // 4, step=batch * GB // 2, decode=2 * GB))


@pytest.mark.parametrize(
    ("room", "plan"),
    [(80, "resident"), (45, "resident"), (42, "staged"), (40, "staged"), (39, "grouped"), (24, "grouped")],
)
def test_the_fastest_plan_that_fits(room: int, plan: Plan) -> None:
    """Eight rows: 40.2 GB resident, 36.45 GB staged."""
    assert choose(flux_like, room * GB, 8) == plan


def test_a_smaller_batch_is_rather_taken_than_weights_that_come_and_go() -> None:
    """A batch that is too large is halved; a grouped denoiser crosses the bus at every step."""

    def need_of(batch: int) -> Need:
        weights = Weights(encoders=GB, denoiser=24 * GB, vae=0, others=0, streamed=2 * GB)
        return Need(weights=weights, activations=Activations(encode=0, step=batch * 2 * GB, decode=0))

    assert choose(need_of, 32 * GB, 8) == "staged"
    assert choose(need_of, 24 * GB, 8) == "grouped"


def test_peaks_follow_who_is_there_with_whom() -> None:
    """Decoding may come with either; text encoders and the step's activations never meet unless they stay."""
    need = flux_like(8)
    assert need.weights.total == pytest.approx(34.2 * GB)
    assert need.peak("resident") == pytest.approx((34 + 4 + 0.2 + 2) * GB)
    assert need.peak("staged") == pytest.approx((24 + 10 + 0.25 + 0.2 + 2) * GB)
    assert need.peak("grouped") == pytest.approx((10 + 0.25 + 0.2 + 2) * GB)


def test_graphs_want_weights_that_stay() -> None:
    """All plans but the one that moves the denoiser."""
    assert [graphs_allowed(plan) for plan in ("resident", "staged", "grouped")] == [True, True, False]


@pytest.mark.parametrize(("free", "plan"), [(10**9, "resident"), (29_700_000, "staged"), (20_000_000, "grouped")])
def test_auto_goes_by_what_is_free_on_the_device(monkeypatch: pytest.MonkeyPatch, free: int, plan: Plan) -> None:
    """As the worker does when it loads: only the device's answer is made up."""
    monkeypatch.setattr(planning, "free_room", lambda _device: free)
    settings, gpu = scenes(max_batch=1, default_size="128x128"), Device("cuda:0", "a GPU")
    pipeline = load_pipeline(scenes(), Device("cpu", "cpu"))
    assert planning.plan_for(pipeline, settings, EngineSettings(graphs="off"), gpu) == plan
    assert planning.plan_for(pipeline, settings, EngineSettings(memory="staged"), gpu) == "staged"
