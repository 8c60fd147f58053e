"""Which device each rank of a model gets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from actors.engine.devices import Device
from actors.engine.errors import ModelUnavailableError

if TYPE_CHECKING:
    from safelight.config import ParallelSettings


def devices_of(settings: ParallelSettings, own: Device) -> list[Device]:
    """A device a rank: those that are named, or as many as are asked for, from the engine's ``own`` one on.

    Raises ModelUnavailableError where this machine has not got them.
    """
    names = _counted(settings.devices, own) if isinstance(settings.devices, int) else list(settings.devices)
    if names[0] == "cpu":
        return [Device("cpu", "cpu")] * len(names)
    import torch

    there = torch.cuda.device_count()
    missing = [name for name in names if int(name.partition(":")[2]) >= there]
    if missing:
        raise ModelUnavailableError(f"parallel.devices: no {', '.join(missing)} here; this machine has {there} of CUDA")
    return [Device(name, torch.cuda.get_device_name(name)) for name in names]


def cores_of(device: Device, ranks: int) -> int | None:
    """The threads that each of so many ranks on CPUs may use: its share of the cores. None where they don't compute."""
    return max(1, (os.cpu_count() or 1) // ranks) if device.kind == "cpu" else None


def _counted(count: int, own: Device) -> list[str]:
    if own.kind == "cpu":
        return ["cpu"] * count
    if own.kind != "cuda":
        raise ModelUnavailableError(f"parallel.devices: there are no {count} devices of the kind {own.kind}")
    first = int(own.place.partition(":")[2] or 0)
    return [f"cuda:{first + rank}" for rank in range(count)]
