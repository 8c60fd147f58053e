"""How long each block takes: run alone on a device, with weights that are made up."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from actors.engine.parallel.stages.tracing import Block, Trace, blocks_of

_MOST_RUNS, _LEAST_RUNS, _ENOUGH_S = 20, 2, 0.1  # of one block: the fastest tells most where others use the device too
_WEIGHT = 0.01  # any that is neither 0 nor so small that a CPU takes longer for it


@torch.no_grad()
def time_blocks(module: torch.nn.Module, trace: Trace, device: str) -> dict[str, float]:
    """Seconds of each block that works on the latents, the fastest of some runs.

    ``module`` is on ``meta``. One block at a time is given memory, and of blocks that are alike only the first is run.
    """
    blocks = dict(blocks_of(module))
    known: dict[Hashable, float] = {}
    for name in trace.flowing:
        kind = _kind(blocks[name], trace.blocks[name])
        if kind not in known:
            known[kind] = _time(blocks[name], trace.blocks[name], device)
    return {name: known[_kind(blocks[name], trace.blocks[name])] for name in trace.flowing}


def _time(block: torch.nn.Module, traced: Block, device: str) -> float:
    real = copy.deepcopy(block).to_empty(device=device).eval()
    for tensor in (*real.parameters(), *real.buffers()):
        tensor.fill_(_WEIGHT) if tensor.is_floating_point() else tensor.zero_()
    args, kwargs = tree_map(lambda value: _made_up(value, device), traced.call)
    wait: Callable[[], Any] = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    best, spent = float("inf"), 0.0
    for run in range(_MOST_RUNS):
        if run >= _LEAST_RUNS and spent > _ENOUGH_S:
            break
        wait()
        began = time.perf_counter()
        real(*args, **kwargs)
        wait()
        took = time.perf_counter() - began
        best, spent = min(best, took), spent + took
    return best


def _made_up(value: Any, device: str) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    make = torch.randn if value.is_floating_point() else torch.zeros
    return make(value.shape, dtype=value.dtype, device=device)


def _kind(block: torch.nn.Module, traced: Block) -> Hashable:
    """Equal for blocks that take the same time."""
    leaves = tree_flatten(traced.call)[0]
    given = tuple((x.shape, x.dtype) if isinstance(x, torch.Tensor) else None for x in leaves)
    weights = tuple((name, one.shape, one.dtype) for name, one in block.named_parameters())
    return type(block), given, weights
