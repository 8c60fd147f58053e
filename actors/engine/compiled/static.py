"""What a captured pass reads: inputs that stay where they are, and the weights."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from actors.engine.families.base import Inputs
from actors.engine.stepping import BatchKey


def signature(inputs: Inputs, key: BatchKey, bucket: int, device: torch.device) -> Hashable | None:
    """What two passes must agree in to share a graph; None where no graph can serve this one.

    The values of tensors may differ, all else may not: shapes, number formats, the values that are no tensors, and the
    adapters, which are in the key. None where a tensor lies elsewhere than on the device (its value would be frozen
    into the graph), or where a value is of a kind that can't be compared.
    """
    try:
        batched = tuple((name, _described(tensor[:1], device)) for name, tensor in sorted(inputs.batched.items()))
        shared = tuple((name, _described(value, device)) for name, value in sorted(inputs.shared.items()))
    except _IncomparableError:
        return None
    return (replace(key, alone=0), bucket, batched, shared)


class StaticInputs:
    """Inputs of ``bucket`` rows that are the same memory for each pass."""

    def __init__(self, like: Inputs, bucket: int) -> None:
        """Room for passes like this one, and this one's values in it. Raises what the device raises."""
        self.inputs = Inputs(
            {name: tensor.new_empty((bucket, *tensor.shape[1:])) for name, tensor in like.batched.items()},
            {name: _room(value) for name, value in like.shared.items()},
        )
        self.fill(like)

    @property
    def nbytes(self) -> int:
        """Memory on the device, in bytes."""
        tensors = [*self.inputs.batched.values(), *_tensors(self.inputs.shared)]
        return sum(tensor.nbytes for tensor in tensors)

    def fill(self, inputs: Inputs) -> None:
        """Copy a pass's inputs in; rows that are missing repeat the last one. Nothing waits."""
        for name, room in self.inputs.batched.items():
            given = inputs.batched[name]
            room[: len(given)].copy_(given)
            if len(given) < len(room):
                room[len(given) :].copy_(given[-1:].expand(len(room) - len(given), *given.shape[1:]))
        for room, given in zip(_tensors(self.inputs.shared), _tensors(inputs.shared), strict=True):
            room.copy_(given)


@dataclass(slots=True)
class Weights:
    """The memory of a module's parameters and buffers, kept alive, and whether the module still uses it."""

    _watched: list[tuple[torch.Tensor, int]]
    _held: list[torch.Tensor] = field(default_factory=list)

    @classmethod
    def of(cls, module: torch.nn.Module) -> Weights:
        """Those of the module as it stands."""
        plain = [part for tensor in (*module.parameters(), *module.buffers()) for part in _parts(tensor)]
        # An alias keeps the memory itself: ``.to()`` gives the parameter other memory and lets go of this.
        return cls([(tensor, tensor.data_ptr()) for tensor in plain], [tensor.detach() for tensor in plain])

    @property
    def moved(self) -> bool:
        """True where a parameter lies elsewhere by now."""
        return any(tensor.data_ptr() != address for tensor, address in self._watched)


class _IncomparableError(Exception):
    pass


def _described(value: Any, device: torch.device) -> Hashable:
    if isinstance(value, torch.Tensor):
        if value.device != device:
            raise _IncomparableError
        return (torch.Tensor, tuple(value.shape), value.dtype)
    if isinstance(value, Mapping):
        return (dict, tuple((str(name), _described(item, device)) for name, item in sorted(value.items())))
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(_described(item, device) for item in value))
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype, torch.device)):
        return (type(value), value)
    raise _IncomparableError


def _room(value: Any) -> Any:
    """The same, but each tensor in memory of its own. Covers what ``_described`` lets through."""
    if isinstance(value, torch.Tensor):
        return torch.empty_like(value)
    if isinstance(value, Mapping):
        return {name: _room(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_room(item) for item in value])
    return value


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for _, item in sorted(value.items()):
            yield from _tensors(item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _tensors(item)


def _parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors with memory that a quantised weight wraps, or the tensor itself."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        yield tensor
        return
    names, _ = flatten()
    for name in names:
        yield from _parts(getattr(tensor, name))
