"""Compiled blocks: the same results, undone when told, and no worse than eager where compiling fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import SD3Transformer2DModel
from structlog.testing import capture_logs

from actors.engine.compiled.graphs import GraphedPasses
from actors.engine.compiled.regional import Regional, repeated_blocks
from actors.engine.compiled.rehearsal import rehearse
from actors.engine.families.base import Inputs
from actors.engine.passes import Eager
from tests.engine.compiled.tiny import CPU, KEY, Listener, StandIn, flux_inputs, tiny_flux


class Block(torch.nn.Module):
    """So little that compiling it takes a moment."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """2 x + 1."""
        return x * 2 + 1


class Layer(torch.nn.Module):
    """The least with weights."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(5, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One matrix product."""
        output: torch.Tensor = self.linear(x)
        return output


class Blocks(torch.nn.Module):
    """A denoiser of one block that diffusers would compile."""

    _repeated_blocks = ("Block", "Layer")

    def __init__(self) -> None:
        super().__init__()
        self.block: torch.nn.Module = Block()

    def forward(self, x: torch.Tensor, **_: object) -> tuple[torch.Tensor]:
        """What the block makes of it."""
        return (self.block(x),)


def blocks_inputs(rows: int) -> Inputs:
    """Ones for ``Blocks``, which makes threes of them."""
    return Inputs({"x": torch.ones(rows, 5)})


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """One thread, no gradients, no compiled code of other tests."""
    torch.set_num_threads(1)
    torch._dynamo.reset()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


@pytest.mark.slow
def test_compiled_passes_equal_eager_ones() -> None:
    """To rounding, for one row and for several, at another size too; after warming nothing is compiled any more.

    Undone, the denoiser gives the very bits it gave before.
    """
    denoiser = tiny_flux(num_layers=0)
    eager = Eager(denoiser)
    cases = [(1, 5), (2, 5), (3, 5), (5, 5), (1, 6), (4, 6)]
    expected = [eager.run(flux_inputs(rows, side=side), KEY) for rows, side in cases]
    passes = Regional(denoiser, "tiny")
    passes.warm(flux_inputs(1, side=5), KEY, 8)
    warmed = passes.compiles
    assert warmed == 2  # for one row, and for several
    for (rows, side), right in zip(cases, expected, strict=True):
        torch.testing.assert_close(passes.run(flux_inputs(rows, side=side), KEY), right, rtol=1e-4, atol=1e-5)
    assert passes.compiles == warmed
    assert passes.mode == "regional"
    assert passes.padding(3, KEY) == 0
    passes.undo()
    assert passes.mode == "eager"
    for (rows, side), right in zip(cases, expected, strict=True):
        assert torch.equal(passes.run(flux_inputs(rows, side=side), KEY), right)


@pytest.mark.slow
def test_frozen_weights_give_the_same() -> None:
    """To rounding, for one row and for several."""
    denoiser = Blocks()
    denoiser.block = Layer()
    eager = Eager(denoiser)
    cases = [Inputs({"x": torch.randn(rows, 5)}) for rows in (1, 2, 3)]
    expected = [eager.run(inputs, KEY) for inputs in cases]
    passes = Regional(denoiser, "tiny", frozen=True)
    for inputs, right in zip(cases, expected, strict=True):
        torch.testing.assert_close(passes.run(inputs, KEY), right, rtol=1e-4, atol=1e-5)
    assert passes.mode == "regional"
    assert passes.compiles > 0


def test_without_a_compiler_passes_run_eager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One warning, right results, and no second try."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    passes = Regional(Blocks(), "tiny")
    broken = {"cpp.cxx": (None, "/nowhere/c++"), "fx_graph_cache": False}
    with torch._inductor.config.patch(broken), capture_logs() as logs:
        for _ in range(2):
            assert torch.equal(passes.run(blocks_inputs(2), KEY), torch.full((2, 5), 3.0))
    assert [log["action"] for log in logs] == ["engine.compile_failed"]
    assert passes.mode == "eager"


def test_beyond_so_many_versions_new_ones_run_eager() -> None:
    """Compiled code that is there goes on being used, and results stay right."""

    passes = Regional(Blocks(), "tiny")
    with torch._dynamo.config.patch(recompile_limit=1), capture_logs() as logs:
        for rows in (2, 1, 3, 1, 2):
            output = passes.run(blocks_inputs(rows), KEY)
            assert torch.equal(output, torch.full((rows, 5), 3.0))
    assert [log["action"] for log in logs] == ["engine.compile_full"]
    assert passes.compiles == 1
    assert passes.mode == "regional"


def test_graphs_are_captured_of_compiled_code() -> None:
    """Only the rehearsal runs eager: what is replayed is what was compiled."""
    denoiser, capture = Blocks(), StandIn()
    regional = Regional(denoiser, "tiny")
    passes = GraphedPasses(
        denoiser=denoiser,
        otherwise=regional,
        capture=capture,
        device=CPU,
        model="tiny",
        observer=Listener(),
        limit_bytes=10**6,
        max_batch=4,
    )
    rehearse(lambda: passes.otherwise.run(blocks_inputs(2), KEY))
    assert regional.compiles == 0
    passes.warm(blocks_inputs(1), KEY, 4)
    assert (regional.compiles, capture.captured, passes.mode) == (2, [4, 2, 1], "regional+graphs")
    for rows in (1, 2, 3, 4):
        assert torch.equal(passes.run(blocks_inputs(rows), KEY), torch.full((rows, 5), 3.0))
    assert regional.compiles == 2


def test_an_error_that_is_not_the_compilers_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that fails eagerly too says so itself; out of memory is no reason to give up on compiled code."""
    denoiser = tiny_flux()
    passes = Regional(denoiser, "tiny")
    error: Exception = torch.OutOfMemoryError("out of memory")

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(type(denoiser), "forward", fail)
    with pytest.raises(torch.OutOfMemoryError):
        passes.run(flux_inputs(1), KEY)
    assert passes.mode == "regional"
    error = RuntimeError("shapes don't match")
    with capture_logs() as logs, pytest.raises(RuntimeError, match="shapes"):
        passes.run(flux_inputs(1), KEY)
    assert logs == []


def test_a_model_that_names_no_blocks_runs_eager() -> None:
    """There is nothing to compile, and nothing to undo."""

    class Plain(torch.nn.Module):
        def forward(self, x: torch.Tensor, **_: object) -> tuple[torch.Tensor]:
            return (x * 2,)

    passes = Regional(Plain(), "tiny")
    passes.warm(Inputs({"x": torch.ones(1, 1)}), KEY, 2)
    assert passes.run(Inputs({"x": torch.ones(2, 1)}), KEY).tolist() == [[2.0], [2.0]]
    assert passes.mode == "eager"
    assert passes.compiles == 0
    assert not passes.idle()
    assert not passes.release()


def test_blocks_are_found_inside_a_wrapper() -> None:
    """A family may hand out its denoiser wrapped."""
    denoiser = tiny_flux(num_layers=2, num_single_layers=3)
    assert len(repeated_blocks(torch.nn.Sequential(denoiser))) == 5


def test_blocks_that_nobody_names() -> None:
    """SD3's transformer tells of none: the lists of its own do, and what is in no list twice is left alone."""
    sizes = {"sample_size": 8, "num_layers": 3, "attention_head_dim": 8, "num_attention_heads": 2}
    widths = {"caption_projection_dim": 16, "joint_attention_dim": 8, "pooled_projection_dim": 8}
    denoiser: Any = SD3Transformer2DModel(**sizes, **widths, pos_embed_max_size=8)
    assert repeated_blocks(denoiser) == list(denoiser.transformer_blocks)
    assert repeated_blocks(torch.nn.ModuleDict({"once": torch.nn.ModuleList([torch.nn.ReLU()])})) == []
