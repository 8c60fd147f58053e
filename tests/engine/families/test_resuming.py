"""A row goes on from its state, wherever that was taken, as if it had never stopped; a wrong state changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from actors.engine.errors import CheckpointError
from actors.engine.families.base import LatentRow
from actors.engine.latent import LatentModel
from actors.engine.resuming import restore_row, row_state
from actors.engine.stepping import RowState
from tests.engine.families.company import ask, rows_of, state_of, walk
from tests.engine.families.schedulers import SCHEDULERS, scheduled


@pytest.mark.parametrize("name", SCHEDULERS)
def test_going_on_from_any_step_ends_on_the_same_bits(name: str) -> None:
    """Histories, noise and half-done steps of second order included."""
    model = scheduled(name)
    request = ask(steps=5)
    [row] = rows_of(model, request)
    states = [state_of(row)]
    while not row.done:
        walk(model, [row], steps=1)
        states.append(state_of(row))
    for state in states:
        [fresh] = rows_of(model, request)
        model.restore(fresh, state)
        assert fresh.step == state.step
        assert torch.equal(walk(model, [fresh])[0].latents, row.latents)


def test_every_family_goes_on(model: LatentModel) -> None:
    """In the same company to the bit."""
    requests = ask(), ask(seeds=(8,), prompt="fog")
    expected = walk(model, rows_of(model, *requests))
    states = [state_of(row) for row in walk(model, rows_of(model, *requests), steps=2)]
    fresh = rows_of(model, *requests)
    for row, state in zip(fresh, states, strict=True):
        model.restore(row, state)
    for row, end in zip(walk(model, fresh), expected, strict=True):
        assert torch.equal(row.latents, end.latents)


def test_a_snapshot_is_of_its_moment(flux: LatentModel) -> None:
    """What the row does between the snapshot and its writing down is not in it."""
    [row] = walk(flux, rows_of(flux, ask()), steps=1)
    now, later = state_of(row), row_state(row)
    walk(flux, [row])
    assert later is not None
    state = later()
    assert state.step == 1
    assert state.values == now.values
    assert all(torch.equal(tensor, now.tensors[name]) for name, tensor in state.tensors.items())


def test_a_state_has_memory_of_its_own(flux: LatentModel) -> None:
    """Rows that stepped together share theirs, and safetensors writes no shared tensors."""
    rows = walk(flux, rows_of(flux, ask(seeds=(1, 2))), steps=1)
    states = [make() for make in map(row_state, rows) if make is not None]
    both = {f"{index}.{name}": one for index, state in enumerate(states) for name, one in state.tensors.items()}
    assert safetensors.torch.save(both)
    assert all(tensor.is_contiguous() and tensor.device.type == "cpu" for tensor in both.values())


def test_arrays_and_scalars_of_numpy_survive(flux: LatentModel) -> None:
    """As what they were, inside containers too."""
    kept: dict[str, Any] = {
        "array": np.arange(6, dtype=np.float64).reshape(2, 3)[:, ::2],
        "single": np.float32(0.1),
        "count": np.int64(7),
        "truth": np.bool_(True),
        "pair": (np.float64(0.25), [None, 3, "three"]),
        "named": {"one": torch.tensor(1.5), "none": None},
    }
    [row] = walk(flux, rows_of(flux, ask()), steps=1)
    vars(row.sampler.scheduler).update(kept)
    [fresh] = rows_of(flux, ask())
    flux.restore(fresh, state_of(row))
    found = vars(fresh.sampler.scheduler)
    assert np.array_equal(found["array"], kept["array"])
    assert [type(found[name]) for name in kept] == [type(value) for value in kept.values()]
    assert (found["single"], found["count"], found["pair"]) == (kept["single"], kept["count"], kept["pair"])
    assert type(found["pair"][0]) is np.float64
    assert found["named"] == kept["named"]


def test_what_can_not_be_written_down_has_no_state(flux: LatentModel) -> None:
    """Such a row begins anew elsewhere rather than going on wrongly."""
    [row] = rows_of(flux, ask())
    row.sampler.scheduler.noise = object()
    assert flux.snapshot(row) is None


def _without(name: str) -> Callable[[RowState], RowState]:
    return lambda state: replace(state, tensors={key: one for key, one in state.tensors.items() if key != name})


def _with(name: str, tensor: torch.Tensor) -> Callable[[RowState], RowState]:
    return lambda state: replace(state, tensors={**state.tensors, name: tensor})


def _remembering(**memory: Any) -> Callable[[RowState], RowState]:
    def change(state: RowState) -> RowState:
        return replace(state, values={**state.values, "memory": {**state.values["memory"], **memory}})

    return change


def _nested(depth: int) -> Any:
    nested: Any = None
    for _ in range(depth):
        nested = {"list": [nested]}
    return nested


DAMAGE: dict[str, Callable[[RowState], RowState]] = {
    "no latents": _without("latents"),
    "latents of another size": _with("latents", torch.zeros(1, 4, 3, 3)),
    "latents of whole numbers": lambda state: _with("latents", state.tensors["latents"].long())(state),
    "latents that are no numbers": lambda state: _with("latents", state.tensors["latents"] * float("nan"))(state),
    "no generator": _without("generator"),
    "half a generator": lambda state: _with("generator", state.tensors["generator"][:100])(state),
    "no generator's state": _with("generator", torch.zeros(5056, dtype=torch.uint8)),
    "other timesteps": _with("timesteps", torch.arange(5.0)),
    "a step before the first": lambda state: replace(state, step=-1),
    "a step after the last": lambda state: replace(state, step=100),
    "another step than its scheduler's": lambda state: replace(state, step=state.step + 1),
    "another scheduler": lambda state: replace(state, values={**state.values, "scheduler": "DDIMScheduler"}),
    "no values": lambda state: replace(state, values={}),
    "memory that is none": lambda state: replace(state, values={**state.values, "memory": [1, 2]}),
    "a method": _remembering(step=3),
    "a property": _remembering(step_index=3),
    "the settings": _remembering(_internal_dict={"dict": {}}),
    "a tensor that is missing": _remembering(model_outputs={"list": [{"tensor": "nowhere"}]}),
    "a history of another size": lambda state: _remembering(last_sample={"tensor": "x"})(
        _with("x", torch.zeros(1, 4, 3, 3))(state)
    ),
    "a history that is not there": _remembering(model_outputs={"list": [None, None, None]}),
    "a count that is none": _remembering(lower_order_nums="three"),
    "a table that is none": _remembering(sigmas=3.0),
    "a kind that is unknown": _remembering(model_outputs={"code": "x"}),
    "a number that is no number": _remembering(x={"scalar": "x", "dtype": "<f8"}),
    "a type of numpy that is unknown": _remembering(x={"scalar": 1, "dtype": "O8x"}),
    "a type of numpy that takes memory": _remembering(x={"scalar": 10**12, "dtype": "V1"}),
    "lists in lists without end": _remembering(x=_nested(5000)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_state_leaves_the_row_as_it_was(damage: str) -> None:
    """It is refused as a whole, and the row walks on from where it stood."""
    model = scheduled("unipc")
    [row] = walk(model, rows_of(model, ask(steps=5)), steps=3)
    state = DAMAGE[damage](state_of(row))
    [fresh] = rows_of(model, ask(steps=5))
    before, attributes = fresh.latents, _described(fresh)
    with pytest.raises(CheckpointError):
        model.restore(fresh, state)
    assert fresh.latents is before
    assert (fresh.step, _described(fresh)) == (0, attributes)


def test_another_walk_s_state_is_refused(flux: LatentModel) -> None:
    """Of as many steps less, or of another size."""
    [row] = walk(flux, rows_of(flux, ask(steps=6)), steps=2)
    for request in (ask(steps=5), ask(steps=6, width=48)):
        [other] = rows_of(flux, request)
        with pytest.raises(CheckpointError):
            restore_row(other, state_of(row))


def test_a_lost_device_is_no_damaged_state(flux: LatentModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """To begin anew on it would fail, too."""
    [row] = walk(flux, rows_of(flux, ask(steps=6)), steps=2)
    state = state_of(row)
    [fresh] = rows_of(flux, ask(steps=6))

    def lose(*_: object) -> None:
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(fresh.sampler, "advance", lose)
    with pytest.raises(torch.AcceleratorError):
        restore_row(fresh, state)


def _described(row: LatentRow) -> Mapping[str, str]:
    generator = {"generator": str(row.sampler.generator.get_state().tolist())}
    return {name: repr(value) for name, value in vars(row.sampler.scheduler).items()} | generator
