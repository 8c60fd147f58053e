"""How long a call takes, on whatever device."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch


def settle(device: str) -> None:
    """Wait until the device has done its work."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def milliseconds(call: Callable[[], object], device: str, *, rounds: int, calls: int) -> float:
    """The median, over ``rounds``, of a call's share of ``calls`` in a row: as steps follow each other in a render."""
    call()
    found = []
    for _ in range(rounds):
        settle(device)
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        settle(device)
        found.append((time.perf_counter() - begin) / calls)
    return 1000 * median(found)
