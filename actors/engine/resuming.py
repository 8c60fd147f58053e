"""A row's state, so that it can go on elsewhere: latents, random numbers, and what its scheduler remembers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from actors.engine.devices import is_device_lost
from actors.engine.errors import CheckpointError
from actors.engine.families.base import LatentRow
from actors.engine.stepping import RowState

_GENERATOR = "generator"
_LATENTS = "latents"
_TIMESTEPS = "timesteps"
_MEMORY = "memory"
_SCHEDULER = "scheduler"
_STEP_INDEX = "_step_index"
_NUMBERS = "biuf"  # numpy's kinds: truths, whole numbers with and without a sign, floating point


class _UnwritableError(Exception):
    """A scheduler remembers something that is neither a tensor nor plain."""


def row_state(row: LatentRow) -> Callable[[], RowState] | None:
    """A call that gives the row's state as it stands now; None where its scheduler's memory can't be written down.

    A step replaces tensors and changes none in place, so that references taken now stay what they are; the copy to the
    CPU waits for the call.
    """
    sampler, step = row.sampler, row.step
    tensors = {_LATENTS: row.latents, _TIMESTEPS: sampler.timesteps, _GENERATOR: sampler.generator.get_state()}
    try:
        memory = {name: _plain(value, f"{_MEMORY}.{name}", tensors) for name, value in sampler.memory().items()}
    except _UnwritableError:
        return None
    values = {_SCHEDULER: type(sampler.scheduler).__name__, _MEMORY: memory}

    def state() -> RowState:
        return RowState(step=step, tensors={name: _own(tensor) for name, tensor in tensors.items()}, values=values)

    return state


def restore_row(row: LatentRow, state: RowState) -> None:
    """Let a row go on from a state. Raises CheckpointError where the state isn't such a row's, which stays as it was.

    The state is not trusted: it reaches no method, property or setting of the scheduler. What a lost device raises
    comes through, since it says nothing of the state.
    """
    try:
        latents, numbers, memory = _checked(row, state)
        _try_step(row, latents, numbers, memory, state.step)
    except CheckpointError:
        raise
    except Exception as error:  # damage reaches the schedulers' own code, whose errors are of any kind
        if is_device_lost(error):
            raise
        raise CheckpointError(f"the checkpoint's rows are damaged: {type(error).__name__}") from error
    row.sampler.remember(memory, numbers)
    row.latents, row.clean, row.step = latents, None, state.step


def _try_step(
    row: LatentRow, latents: torch.Tensor, numbers: torch.Tensor, memory: Mapping[str, Any], step: int
) -> None:
    """Raise whatever the next step would, here where the render can still begin anew; the sampler stays as it was."""
    if step == row.steps:
        return
    before = row.sampler.mark()
    try:
        row.sampler.remember(memory, numbers)
        row.sampler.scale(latents, step)
        row.sampler.advance(torch.zeros_like(latents), latents, step)
    finally:
        row.sampler.back(before)


def _checked(row: LatentRow, state: RowState) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    """Latents, the generator's state and the scheduler's memory. Raises whatever damage leads to."""
    sampler, latents = row.sampler, state.tensors[_LATENTS]
    alike = latents.shape == row.latents.shape and latents.is_floating_point() and latents.isfinite().all()
    if not alike or not 0 <= state.step <= row.steps:
        raise CheckpointError("the checkpoint's latents are not those of such a picture")
    if state.values[_SCHEDULER] != type(sampler.scheduler).__name__ or not torch.equal(
        state.tensors[_TIMESTEPS], sampler.timesteps.cpu()
    ):
        raise CheckpointError("the checkpoint was made by another scheduler, or on its way through other steps")
    numbers = state.tensors[_GENERATOR]
    torch.Generator("cpu").set_state(numbers)  # raises where it is none
    memory = {
        name: _value(plain, state.tensors, row.latents)
        for name, plain in state.values[_MEMORY].items()
        if _is_memory(sampler.scheduler, name)
    }
    if hasattr(sampler.scheduler, _STEP_INDEX) and state.step and memory[_STEP_INDEX] != state.step:
        raise CheckpointError("the checkpoint's scheduler has come to another step than its latents")
    return latents.to(row.latents), numbers, memory


def _is_memory(scheduler: Any, name: str) -> bool:
    """Whether the name is an attribute of the object itself; raises where it is the class's, or the settings."""
    if hasattr(type(scheduler), name) or name == "_internal_dict":
        raise CheckpointError(f"a checkpoint can't set {name} of a scheduler")
    return True


def _plain(value: Any, name: str, tensors: dict[str, torch.Tensor]) -> Any:
    """What JSON holds of a value; its tensors go to ``tensors``, by names that begin with ``name``."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, torch.Tensor):
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, np.ndarray) and value.dtype.kind in _NUMBERS:
        tensors[name] = torch.from_numpy(value.copy())
        return {"array": name}
    if isinstance(value, np.generic) and value.dtype.kind in _NUMBERS:
        return {"scalar": value.item(), "dtype": value.dtype.str}
    if type(value) in (list, tuple):
        items = [_plain(item, f"{name}.{index}", tensors) for index, item in enumerate(value)]
        return {type(value).__name__: items}
    if type(value) is dict and all(type(key) is str for key in value):
        return {"dict": {key: _plain(item, f"{name}.{key}", tensors) for key, item in value.items()}}
    raise _UnwritableError(name)


def _value(plain: Any, tensors: Mapping[str, torch.Tensor], like: torch.Tensor) -> Any:
    """What ``_plain`` was given. Samples lie where the latents ``like`` do; sigmas and timesteps stay on the CPU."""
    if plain is None or type(plain) in (bool, int, float, str):
        return plain
    if "tensor" in plain:
        tensor = tensors[plain["tensor"]]
        if tensor.ndim and tensor.shape != like.shape:
            raise CheckpointError("the checkpoint's scheduler remembers samples of another shape")
        return tensor.to(like.device) if tensor.ndim else tensor
    if "array" in plain:
        return tensors[plain["array"]].numpy().copy()
    if "scalar" in plain:
        kind = np.dtype(plain["dtype"])
        if kind.kind not in _NUMBERS:  # np.void(10**12) would take that much memory
            raise CheckpointError("the checkpoint's scheduler remembers what is no number")
        return kind.type(plain["scalar"])
    if "dict" in plain:
        return {key: _value(item, tensors, like) for key, item in plain["dict"].items()}
    sequence: type[list[Any]] | type[tuple[Any, ...]] = list if "list" in plain else tuple
    return sequence(_value(item, tensors, like) for item in plain[sequence.__name__])


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the CPU with memory of its own: rows that stepped together share theirs."""
    return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
