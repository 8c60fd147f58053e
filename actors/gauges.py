"""How full and how busy the worker's device is, asked when Prometheus asks.

A GPU is asked through NVML, which is none of CUDA: whoever scrapes touches neither the engine's stream nor its context.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True)
class Reading:
    """Memory in bytes by kind (``used``, ``total``, ``allocated``, ``reserved``); ``busy`` in 0…1 where it is known."""

    memory: dict[str, int]
    busy: float | None = None


class DeviceGauges(Collector):
    """Gauges of one device, from ``start`` to ``stop``."""

    def __init__(self, wanted: str, label: str, registry: CollectorRegistry = REGISTRY) -> None:
        """``wanted`` is torch's name as the settings have it, ``label`` what people call the device."""
        self._wanted = wanted
        self._label = label
        self._registry = registry
        self._started = False

    def start(self) -> None:
        """Be asked from now on."""
        self._registry.register(self)
        self._started = True

    def stop(self) -> None:
        """Be asked no more."""
        if self._started:
            self._registry.unregister(self)
        self._started = False

    def describe(self) -> Iterable[Metric]:
        """Nothing is asked at the registration."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The device as it is now; what can't be read is left out."""
        reading = read_device(self._wanted)
        memory = GaugeMetricFamily(
            "safelight_device_memory_bytes",
            "The device's memory; a CPU's used is the worker's own. allocated and reserved are torch's part.",
            labels=("device", "kind"),
        )
        for kind, size in reading.memory.items():
            memory.add_metric((self._label, kind), size)
        yield memory
        busy = GaugeMetricFamily(
            "safelight_device_utilization_ratio",
            "Share of the last moment in which the device worked.",
            labels=("device",),
        )
        if reading.busy is not None:
            busy.add_metric((self._label,), reading.busy)
        yield busy


def read_device(wanted: str) -> Reading:
    """What there is to be read of the device that is called so."""
    torch = sys.modules.get("torch")  # the engine's; a scrape loads nothing
    if wanted.partition(":")[0] in ("cpu", "simulated", "mps") or torch is None or not torch.cuda.is_initialized():
        return Reading(_process_memory())
    index = int(wanted.partition(":")[2] or 0)
    return _read_gpu(torch, index)


def _read_gpu(torch: Any, index: int) -> Reading:
    # Counters of torch's allocator on the host; the device isn't asked.
    memory = {"allocated": int(torch.cuda.memory_allocated(index)), "reserved": int(torch.cuda.memory_reserved(index))}
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no such package, or no such library: there is nothing to be asked
        return Reading(memory)
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(index).uuid}")
        whole = pynvml.nvmlDeviceGetMemoryInfo(handle)
        memory |= {"used": int(whole.used), "total": int(whole.total)}
        return Reading(memory, pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100)
    except Exception:  # NVML tells less of parts of a GPU (MIG), and of some nothing at all
        return Reading(memory)
    finally:
        with suppress(Exception):
            pynvml.nvmlShutdown()


def _process_memory() -> dict[str, int]:
    """Of this process, and of the machine; Linux tells both."""
    with suppress(OSError, ValueError, IndexError):
        page = os.sysconf("SC_PAGE_SIZE")
        used = int(Path("/proc/self/statm").read_text().split()[1]) * page
        return {"used": used, "total": os.sysconf("SC_PHYS_PAGES") * page}
    return {}
