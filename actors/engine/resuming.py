"""A row's state, so that it can go on elsewhere: latents, random numbers, and what its scheduler remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from actors.engine.errors import CheckpointError
from actors.engine.families.base import LatentRow
from actors.engine.stepping import RowState

_GENERATOR = "generator"
_LATENTS = "latents"
_SCHEDULER = "scheduler."
_PLAIN = (int, float, str, bool, type(None))


def row_state(row: LatentRow) -> Callable[[], RowState]:
    """A call that gives the row's state as it stands now.

    A step replaces tensors and changes none in place, so that references taken now stay what they are; the copy to the
    CPU waits for the call.
    """
    tensors = {_LATENTS: row.latents, _GENERATOR: row.sampler.generator.get_state()}
    values: dict[str, Any] = {}
    for name, value in _memory(row.sampler.scheduler):
        (tensors if isinstance(value, torch.Tensor) else values)[_SCHEDULER + name] = value
    step = row.step

    def state() -> RowState:
        return RowState(step=step, tensors={name: tensor.cpu() for name, tensor in tensors.items()}, values=values)

    return state


def restore_row(row: LatentRow, state: RowState) -> None:
    """Let a fresh row go on from a state. Raises CheckpointError where the state isn't such a row's."""
    latents = state.tensors.get(_LATENTS)
    if latents is None or latents.shape != row.latents.shape or not 0 <= state.step <= row.steps:
        raise CheckpointError("the checkpoint's latents are not those of such a picture")
    try:
        row.sampler.generator.set_state(state.tensors[_GENERATOR])
    except (KeyError, RuntimeError, TypeError) as error:
        raise CheckpointError("the checkpoint's random numbers can't be taken up") from error
    _remember(row.sampler.scheduler, {**state.tensors, **state.values}, row.latents.device)
    row.latents = latents.to(row.latents)
    row.step = state.step


def _memory(scheduler: Any) -> Iterator[tuple[str, Any]]:
    """All that a scheduler keeps between steps, flat: ``name`` or, of a list's items, ``name.index``."""
    for name, value in vars(scheduler).items():
        if name == "_internal_dict":
            continue
        if isinstance(value, list):
            yield f"{name}.length", len(value)
            for index, item in enumerate(value):
                if isinstance(item, (torch.Tensor, *_PLAIN)):
                    yield f"{name}.{index}", item
        elif isinstance(value, (torch.Tensor, *_PLAIN)):
            yield name, value


def _remember(scheduler: Any, memory: Mapping[str, Any], device: torch.device) -> None:
    for name, value in list(vars(scheduler).items()):
        length = memory.get(f"{_SCHEDULER}{name}.length")
        if isinstance(value, list) and isinstance(length, int):
            items = (memory.get(f"{_SCHEDULER}{name}.{index}") for index in range(length))
            setattr(scheduler, name, [_moved(item, device) for item in items])
        elif _SCHEDULER + name in memory:
            new = memory[_SCHEDULER + name]
            # What it keeps of samples lies on the device; sigmas and timesteps stay where a fresh scheduler has them.
            setattr(scheduler, name, _moved(new, value.device if isinstance(value, torch.Tensor) else device))


def _moved(value: Any, device: torch.device) -> Any:
    return value.to(device) if isinstance(value, torch.Tensor) else value
