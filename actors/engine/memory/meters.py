"""How much memory a piece of work takes at its worst moment, beside what was there before."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.distributed._tools.common_utils import get_untyped_storages
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary


class TrackedPeak(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """``peak``, in bytes: adds up the storages that operators make, real or fake, and takes off those that are let go.

    torch's own MemTracker does so too, but hooks into gradients, which weights that want none refuse. What an operator
    takes and gives back within itself (the workspace of a convolution) is not seen.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        self._now = 0
        self._known: Any = WeakIdKeyDictionary()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the operator; what it takes in was there before, what comes out of it and is new is counted."""
        kwargs = kwargs or {}
        for storage in _storages((args, kwargs)):
            self._known.setdefault(storage, None)
        result = func(*args, **kwargs)
        for storage in _storages(result):
            if storage not in self._known:
                self._known[storage] = None
                self._add(storage.nbytes())
                weakref.finalize(storage, self._add, -storage.nbytes()).atexit = False
        return result

    def _add(self, size: int) -> None:
        self._now += size
        self.peak = max(self.peak, self._now)


class CudaPeak(AbstractContextManager["CudaPeak"]):
    """``peak``, in bytes: what torch's CUDA allocator had given out at its worst moment."""

    def __init__(self, place: str) -> None:
        self.peak = 0
        self._place = place
        self._before = 0

    def __enter__(self) -> CudaPeak:
        """Start from what is there now."""
        torch.cuda.synchronize(self._place)
        torch.cuda.reset_peak_memory_stats(self._place)
        self._before = torch.cuda.memory_allocated(self._place)
        return self

    def __exit__(self, *error: object) -> None:
        """Wait for the work to be done."""
        torch.cuda.synchronize(self._place)
        self.peak = torch.cuda.max_memory_allocated(self._place) - self._before


def _storages(tree: Any) -> list[torch.UntypedStorage]:
    tensors = [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
    return [storage for tensor in tensors for storage in get_untyped_storages(tensor)]
