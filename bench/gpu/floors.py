"""The floor of a step: the arithmetic that it can't do without, at the rate that the device was seen to reach."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from actors.engine.families.base import Inputs
from actors.engine.passes import Eager
from bench.gpu.architectures import Architecture
from bench.gpu.timing import settle

_TRIES = 10
_PRODUCTS = 5  # in a row, so that the wait at the end weighs little


def step_flops(architecture: Architecture, side: int) -> int:
    """Floating point operations of one row's step, both passes where there is guidance. Nothing is computed.

    Counted by torch.utils.flop_counter on tensors without memory: matrix products, convolutions and attention, an
    addition and a multiplication as two.
    """
    family = architecture.family(architecture.pipeline("meta", torch.bfloat16), "meta", torch.bfloat16)
    rows = architecture.rows(family, side, 1)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        for inputs in family.inputs(rows):
            Eager(family.denoiser).run(_on_meta(inputs), rows[0].key)
    return int(counter.get_total_flops())


def matmul_rate(device: str, dtype: torch.dtype) -> float:
    """Floating point operations a second of a large matrix product, the best of some: what the device can do at all."""
    side = 8192 if device.startswith("cuda") else 512
    left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    left @ right
    best = float("inf")
    for _ in range(_TRIES):
        settle(device)
        begin = time.perf_counter()
        for _ in range(_PRODUCTS):
            left @ right
        settle(device)
        best = min(best, (time.perf_counter() - begin) / _PRODUCTS)
    return 2 * side**3 / best


def _on_meta(inputs: Inputs) -> Inputs:
    return Inputs({name: tensor.to("meta") for name, tensor in inputs.batched.items()}, _moved(inputs.shared))


def _moved(shared: dict[str, Any]) -> dict[str, Any]:
    return {name: value.to("meta") if isinstance(value, torch.Tensor) else value for name, value in shared.items()}
