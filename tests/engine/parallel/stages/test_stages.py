"""Stages one after the other are the whole denoiser, whatever its family; each has its own weights alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from accelerate import init_empty_weights  # type: ignore[import-untyped]

from actors.engine.parallel.denoisers import Denoiser
from actors.engine.parallel.programs import weights_of
from actors.engine.parallel.stages.cutting import Split, split
from actors.engine.parallel.stages.stage import StagePart
from actors.engine.parallel.stages.timing import time_blocks
from actors.engine.parallel.stages.tracing import Trace, trace
from actors.engine.parallel.stages.trials import trial
from safelight.config import ModelSettings
from tests.engine.families import tiny

SIZE = (64, 48)


def filled(value: Any) -> Any:
    """A trial's arguments with numbers in them."""
    if isinstance(value, torch.Tensor):
        return torch.randn(value.shape, generator=torch.Generator().manual_seed(value.numel())).to(value.dtype)
    return {name: filled(one) for name, one in value.items()} if isinstance(value, dict) else value


class Cut:
    """A family's tiny denoiser, and what is known of it without a weight."""

    def __init__(self, family: str) -> None:
        pipeline = tiny.FAMILIES[family]()
        self.make = tiny.FAMILIES[family]
        self.whole = self.part_of(pipeline)
        found = Denoiser("", type(self.whole), dict(self.whole.config), "")
        model = ModelSettings(
            model="tiny", family=family, max_sequence_length=24 if family in ("flux", "sd3") else None
        )
        self.arguments = filled(trial(found, model, torch.float32, SIZE, rows=2))
        with init_empty_weights(include_buffers=True):
            self.empty = type(self.whole).from_config(self.whole.config).eval().requires_grad_(False)
        self.trace: Trace = trace(self.empty, self.empty, self.arguments)

    @staticmethod
    def part_of(pipeline: Any) -> Any:
        """The denoiser of a pipeline."""
        return getattr(pipeline, "transformer", None) or pipeline.unet

    def parts(self, cut: Split) -> list[tuple[Any, StagePart]]:
        """Each stage's module, and its part."""
        modules = [self.part_of(self.make()) for _ in cut.stages]
        return [(module, StagePart(module, cut, stage)) for stage, module in enumerate(modules)]


@pytest.fixture(scope="module", params=["flux", "sd15", "sdxl", "sd3"])
def each(request: pytest.FixtureRequest) -> Cut:
    """A family."""
    return Cut(request.param)


@pytest.mark.parametrize("stages", [2, 3])
@torch.no_grad()
def test_stage_after_stage_is_the_whole(each: Cut, stages: int) -> None:
    """To the last bit, wherever it is cut; and the weights are shared out."""
    expected = each.whole(**each.arguments, return_dict=False)[0]
    for heavy in each.trace.flowing[stages :: max(1, len(each.trace.flowing) // 5)]:
        cut = split(each.trace, {name: 9.0 if name == heavy else 1.0 for name in each.trace.flowing}, stages)
        parts, given = each.parts(cut), [{} for _ in cut.stages]  # type: ignore[var-annotated]
        for stage, (module, part) in enumerate(parts):
            before = {port: tensor.clone() for port, tensor in given[stage].items()}
            made, output = part.run(module, each.arguments, each.trace, given[stage])
            assert (output is None) == (stage < stages - 1)
            assert all(torch.equal(given[stage][port], tensor) for port, tensor in before.items())  # it may run again
            for link in cut.links:
                if link.source == stage:
                    given[link.target].update({port: made[port].clone() for port in link.ports})
        assert output is not None
        assert torch.equal(output, expected)
    whole = weights_of(each.whole)
    steady = sum(weights_of(each.whole.get_submodule(name)) for name in cut.stages[0].steady)
    shares = [weights_of(module) for module, _ in parts]
    assert max(shares) < whole
    assert sum(shares) <= whole + stages * steady + 1


def test_blocks_that_are_alike_take_the_same_time(each: Cut) -> None:
    """All that work on the latents are timed, and nothing else."""
    seconds = time_blocks(each.empty, each.trace, "cpu")
    assert tuple(seconds) == each.trace.flowing
    assert min(seconds.values()) > 0
    assert not any(one.device.type != "meta" for one in each.empty.parameters())
