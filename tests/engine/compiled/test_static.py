"""Inputs that stay where they are, and weights that must."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from actors.engine.compiled.static import StaticInputs, Weights, signature
from actors.engine.families.base import Inputs
from tests.engine.compiled.tiny import CPU, KEY, flux_inputs


def test_values_differ_and_shapes_may_not() -> None:
    """Other noise, other rows and a render of its own share a graph; all else has another."""
    one = flux_inputs(2)
    name = signature(one, KEY, 2, CPU)
    assert name is not None
    assert name == signature(flux_inputs(1, seed=5), replace(KEY, alone=3), 2, CPU)
    others = [
        signature(one, KEY, 4, CPU),
        signature(one, replace(KEY, adapters=(("style", 1.0),)), 2, CPU),
        signature(one, replace(KEY, guided=True), 2, CPU),
        signature(flux_inputs(2, side=6), KEY, 2, CPU),
        signature(Inputs(one.batched, one.shared | {"scale": 1.0}), KEY, 2, CPU),
        signature(Inputs(one.batched, one.shared | {"scale": 1}), KEY, 2, CPU),
        signature(Inputs(one.batched, one.shared | {"scale": True}), KEY, 2, CPU),
        signature(Inputs(one.batched, one.shared | {"shapes": [(1, 8, 8)]}), KEY, 2, CPU),
        signature(Inputs({k: v.double() for k, v in one.batched.items()}, one.shared), KEY, 2, CPU),
    ]
    assert len({name, *others}) == len(others) + 1


@pytest.mark.parametrize("value", [object(), {1, 2}, torch.ones(2, device="meta"), [torch.ones((), device="meta")]])
def test_what_no_graph_can_serve(value: object) -> None:
    """Values that can't be compared, and tensors that a graph would keep the value of."""
    one = flux_inputs(1)
    assert signature(Inputs(one.batched, {"other": value}), KEY, 1, CPU) is None


def test_missing_rows_repeat_the_last() -> None:
    """Padding is a row that is known to be good, and shared tensors come along."""
    static = StaticInputs(flux_inputs(4), 4)
    places = [tensor.data_ptr() for tensor in static.inputs.batched.values()]
    given = flux_inputs(3, seed=9)
    given = Inputs(given.batched, {**given.shared, "txt_ids": torch.full((6, 3), 7.0)})
    static.fill(given)
    assert places == [tensor.data_ptr() for tensor in static.inputs.batched.values()]
    for name, tensor in given.batched.items():
        assert torch.equal(static.inputs.batched[name][:3], tensor)
        assert torch.equal(static.inputs.batched[name][3], tensor[2])
    assert torch.equal(static.inputs.shared["txt_ids"], given.shared["txt_ids"])
    assert static.inputs.shared["txt_ids"] is not given.shared["txt_ids"]
    assert (
        static.nbytes == sum(tensor.nbytes for tensor in static.inputs.batched.values()) + 2 * 4 * (16 * 3 + 6 * 3) // 2
    )


def test_nested_tensors_are_inputs_too() -> None:
    """As diffusers nests them in dictionaries and lists; what is no tensor stays what it is."""
    given = Inputs(
        {"x": torch.ones(1, 2)}, {"added": {"b": torch.ones(2), "a": [torch.zeros(3), "word"]}, "flag": None}
    )
    static = StaticInputs(given, 2)
    static.fill(
        Inputs(given.batched, {"added": {"a": [torch.full((3,), 5.0), "word"], "b": torch.ones(2)}, "flag": None})
    )
    added = static.inputs.shared["added"]
    assert added["a"][0].tolist() == [5.0, 5.0, 5.0]
    assert added["a"][1] == "word"
    assert static.inputs.shared["flag"] is None


def test_weights_that_move_are_noticed() -> None:
    """``.to()`` gives a parameter other memory; a new value in the old memory is no move."""
    linear, norm = torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)
    layer = torch.nn.Sequential(linear, norm).requires_grad_(requires_grad=False)
    weights = Weights.of(layer)
    linear.weight.fill_(3.0)
    assert [weights.moved, Weights.of(layer).moved] == [False, False]
    linear.weight.data = linear.weight.data.clone()
    assert [weights.moved, Weights.of(layer).moved] == [True, False]
    weights = Weights.of(layer)
    norm.double()
    assert weights.moved


def test_memory_of_weights_is_kept() -> None:
    """What a graph points to stays allocated, whatever the module does."""
    layer = torch.nn.Linear(2, 2).requires_grad_(requires_grad=False)
    before, old = layer.weight.clone(), layer.weight.data_ptr()
    weights = Weights.of(layer)
    layer.weight.data = torch.zeros(2, 2)
    held = next(tensor for tensor in weights._held if tensor.data_ptr() == old)
    assert torch.equal(held, before)
