"""Finds out without a capture whether a pass can be captured.

A capture that fails is costly: up to torch 2.13 its memory pool stays reserved for the life of the process
(https://github.com/pytorch/pytorch/pull/190348). What breaks a capture is work that makes the host wait for the device,
or that moves data between them, and such calls can be seen one by one in a pass that is not captured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Operators whose result's value or shape the host reads from the device.
_WAITS = frozenset(
    {
        "_local_scalar_dense",
        "equal",
        "is_nonzero",
        "masked_select",
        "nonzero",
        "unique_dim",
        "_unique",
        "_unique2",
        "unique_consecutive",
        "bincount",
    }
)


class NotCapturableError(Exception):
    """A pass does what a CUDA graph can't hold."""


def rehearse(call: Callable[[], object]) -> None:
    """Call once, eagerly, and raise NotCapturableError at the first operator that a capture would break on."""
    with torch.compiler.set_stance("force_eager"), _Watch():  # type: ignore[no-untyped-call]
        call()


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        if name in _WAITS or (name == "repeat_interleave" and "output_size" not in (kwargs or {})):
            raise NotCapturableError(f"{name} makes the host wait for the device")
        if name in {"index", "index_put", "index_put_"} and any(_is_mask(item) for item in args[1]):
            raise NotCapturableError(f"{name} with a mask makes the host wait for the device")
        output = func(*args, **(kwargs or {}))
        places = {tensor.device.type for tensor in _arrays((args, kwargs, output))}
        if len(places) > 1:
            raise NotCapturableError(f"{name} moves data between {' and '.join(sorted(places))}")
        return output


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in {torch.bool, torch.uint8}


def _arrays(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in it that are no single numbers: those on the CPU travel with a launch, as constants."""
    if isinstance(value, torch.Tensor):
        if value.ndim > 0:
            yield value
    elif isinstance(value, Mapping):
        yield from _arrays(list(value.values()))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _arrays(item)
