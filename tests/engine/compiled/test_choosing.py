"""Which passes a denoiser gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from actors.engine.compiled import choosing
from actors.engine.compiled.choosing import make_passes
from actors.engine.compiled.graphs import GraphedPasses
from actors.engine.compiled.regional import Regional
from actors.engine.devices import Device
from actors.engine.passes import Eager, Passes
from actors.engine.stepping import Adapters
from safelight.config import EngineSettings
from tests.engine.compiled.tiny import KEY, Listener, StandIn, flux_inputs, tiny_flux

CPU = Device("cpu", "cpu")
CUDA = Device("cuda:0", "a GPU")


@pytest.fixture(autouse=True)
def captures(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """What takes the place of CUDA's capture, which can't be made here."""
    capture = StandIn()
    monkeypatch.setattr(choosing, "CudaCapture", lambda place: capture)
    yield capture
    torch._dynamo.reset()


def passes(device: Device, *, streamed: bool = False, max_batch: int | None = None, **settings: str | int) -> Passes:
    """Passes of a tiny denoiser by such settings."""
    engine = EngineSettings(**settings)  # type: ignore[arg-type]
    return make_passes(tiny_flux(), device, engine, Listener(), "tiny", max_batch=max_batch, streamed=streamed)


def test_a_cpu_runs_eager_unless_told() -> None:
    """Compiling there takes a minute; graphs are CUDA's."""
    assert isinstance(passes(CPU), Eager)
    assert isinstance(passes(CPU, compile="off"), Eager)
    assert isinstance(passes(CPU, compile="regional"), Regional)


def test_weights_are_frozen_where_nothing_changes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, without adapters, and only where a second copy of them is affordable."""

    def frozen(device: Device, use: Callable[[Adapters], None] | None = None) -> bool:
        settings = EngineSettings(compile="regional", graphs="off")
        made = make_passes(tiny_flux(), device, settings, Listener(), "tiny", use=use)
        assert isinstance(made, Regional)
        return made.frozen

    assert frozen(CPU)
    assert not frozen(CPU, use=lambda wanted: None)
    assert not frozen(CUDA)
    monkeypatch.setattr(choosing, "_FROZEN_BYTES", 1000)
    assert not frozen(CPU)


def test_cuda_gets_all() -> None:
    """Compiled blocks inside of graphs; each can be turned off."""
    both = passes(CUDA, graphs_mb=7, max_batch=3)
    assert isinstance(both, GraphedPasses)
    assert isinstance(both.otherwise, Regional)
    assert (both.mode, both.limit_bytes, both.max_batch) == ("regional+graphs", 7_000_000, 3)
    assert passes(CUDA, compile="off").mode == "eager+graphs"
    assert passes(CUDA, graphs="off").mode == "regional"
    assert passes(CUDA, graphs_mb=0).mode == "regional"
    assert passes(CUDA, graphs="off", compile="off").mode == "eager"


def test_weights_that_come_and_go_run_eager() -> None:
    """A graph would read memory that is somebody else's by then."""
    assert isinstance(passes(CUDA, streamed=True), Eager)


def test_eager_passes_have_nothing_to_prepare() -> None:
    """They answer all that the engine asks of passes."""
    direct = passes(CPU)
    direct.warm(flux_inputs(1), KEY, 8)
    with torch.no_grad():
        assert len(direct.run(flux_inputs(3), KEY)) == 3
    assert (direct.padding(3, KEY), direct.idle(), direct.release(), direct.mode) == (0, False, False, "eager")
