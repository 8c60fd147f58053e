"""A denoiser on two ranks is the denoiser on one, up to rounding: by tokens, by keys, by weights, by rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from actors.engine.devices import Device
from actors.engine.families.base import Inputs
from actors.engine.parallel.group import Group
from actors.engine.parallel.kinds import Branches
from actors.engine.parallel.orders import Order
from actors.engine.stepping import BatchKey
from safelight.config import EngineSettings, ParallelSettings
from tests.engine.conftest import scenes

CPU = Device("cpu", "cpu")
KEY = BatchKey("scenes", 64, 64)
ROUNDING = 2e-5  # of outputs of about 1


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    """Two ranks that can do it all."""
    parallel = ParallelSettings(kind="ulysses", devices=2)
    program = "tests.engine.parallel.several:Several"
    group = Group(scenes(), parallel, EngineSettings(), [CPU, CPU], program, lambda: None)
    group.start()
    yield group
    group.stop()


def run(group: Group, inputs: Inputs, kind: str) -> torch.Tensor:
    """One pass, one way: the first rank's output."""
    orders = [Order(passes=(inputs,), key=KEY, answers=rank == 0, note={"kind": kind}) for rank in range(2)]
    return group.run(orders, CPU)[0][0]


def flux_inputs(tokens: int, text: int, rows: int = 2) -> Inputs:
    """A pass of the shipped model's denoiser."""
    generator = torch.Generator().manual_seed(tokens + text)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    batched = {
        "hidden_states": drawn(rows, tokens, 32),
        "encoder_hidden_states": drawn(rows, text, 128),
        "pooled_projections": drawn(rows, 128),
        "timestep": torch.linspace(0.9, 0.2, rows),
    }
    ids = {"img_ids": drawn(tokens, 3), "txt_ids": torch.zeros(text, 3)}
    return Inputs(batched, {**ids, "guidance": None, "joint_attention_kwargs": {}})


@pytest.mark.parametrize("kind", ["ulysses", "ring", "tensor"])
def test_two_ranks_equal_one_to_rounding(group: Group, kind: str) -> None:
    """Also where neither picture nor text have an even number of tokens, and in a batch."""
    for tokens, text in ((16, 24), (15, 23)):
        inputs = flux_inputs(tokens, text)
        torch.testing.assert_close(run(group, inputs, kind), run(group, inputs, "whole"), atol=ROUNDING, rtol=ROUNDING)


def test_tensor_parallelism_shares_out_the_weights(group: Group) -> None:
    """The others hold all of them in each rank."""
    whole, ulysses, ring, tensor = run(group, flux_inputs(16, 24), "weights").tolist()
    assert whole == ulysses == ring
    assert 0.5 < tensor / whole < 0.7


def test_branches_share_out_rows_and_put_them_together() -> None:
    """Whatever the rows are: guided halves, or rows without guidance, of which one rank may get one more, or none."""
    plan = Branches(ParallelSettings(kind="cfg", devices=2))
    for rows, halves in ((4, [2, 2]), (3, [2, 1]), (1, [1])):
        inputs = Inputs({"x": torch.arange(float(rows))})
        orders = plan.orders([inputs], KEY, ())
        assert [len(order.passes[0].batched["x"]) for order in orders if order.passes] == halves
        answers = [[one.batched["x"] for one in order.passes] for order in orders]
        assert torch.equal(plan.join(answers, 1)[0], inputs.batched["x"])
    both = [Inputs({"x": torch.ones(2)}), Inputs({"x": torch.zeros(2)})]
    orders = plan.orders(both, KEY, ())
    assert [order.passes for order in orders] == [(both[0],), (both[1],)]
    assert len(plan.join([[torch.ones(2)], [torch.zeros(2)]], 2)) == 2
