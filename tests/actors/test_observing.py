"""What the engine does, and how its device is, as Prometheus tells it."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from prometheus_client import CollectorRegistry, generate_latest

from actors import gauges
from actors.engine import Engine
from actors.engine.observer import Observer, StepTaken
from actors.gauges import DeviceGauges, Reading, read_device
from actors.observing import EngineMetrics
from safelight.telemetry.metrics import BATCH_ROOM, BATCH_ROWS, DEVICE_BUSY, EMBEDS, GRAPH_EVENTS, STEP_SECONDS
from tests.actors.harness import MODEL
from tests.engine.conftest import TIMEOUT_S, ask


def samples(metric: Any) -> dict[tuple[str, ...], float]:
    """Every sample of a metric by its name and its labels' values."""
    return {
        (sample.name, *sample.labels.values()): sample.value for family in metric.collect() for sample in family.samples
    }


def test_what_the_engine_does_is_counted() -> None:
    """By model; rows against room is how full batches are."""
    observer: Observer = EngineMetrics()
    taken = StepTaken(model="m1", size="64x64", rows=3, padded=1, limit=8, seconds=0.02)
    busy = samples(DEVICE_BUSY)["safelight_engine_busy_seconds_total",]
    for _ in range(2):
        observer.stepped(taken)
    observer.admitted("m1", 0.5)
    observer.embedded("m1", hit=True)
    observer.embedded("m1", hit=False)
    observer.graph("m1", "capture")
    observer.halved("m1")
    observer.busy(1.5)
    observer.busy(-1.0)
    assert samples(BATCH_ROWS)["safelight_engine_batch_rows_sum", "m1"] == 6
    assert samples(BATCH_ROOM)["safelight_engine_batch_room_rows_total", "m1"] == 16
    assert samples(STEP_SECONDS)["safelight_engine_step_seconds_count", "m1", "64x64"] == 2
    assert samples(EMBEDS)["safelight_engine_embeds_total", "m1", "hit"] == 1
    assert samples(GRAPH_EVENTS)["safelight_engine_graph_events_total", "m1", "capture"] == 1
    assert samples(DEVICE_BUSY)["safelight_engine_busy_seconds_total",] == busy + 1.5


def test_sizes_are_bounded() -> None:
    """Clients choose them: beyond 32 they share a label, and those that have one keep it."""
    observer = EngineMetrics()
    for side in range(100):
        observer.stepped(StepTaken(model="m2", size=f"{side}x{side}", rows=1, padded=0, limit=1, seconds=0.1))
    observer.stepped(StepTaken(model="m2", size="0x0", rows=1, padded=0, limit=1, seconds=0.1))
    counts = {
        key[2]: value
        for key, value in samples(STEP_SECONDS).items()
        if key[:2] == ("safelight_engine_step_seconds_count", "m2")
    }
    assert (len(counts), counts["other"], counts["0x0"]) == (33, 68, 2)


def test_a_real_render_is_observed() -> None:
    """Steps of the small model: as many as were asked for, and the device was busy."""
    torch.set_num_threads(1)
    engine = Engine({"m3": MODEL}, device="cpu", observer=EngineMetrics())
    engine.start()
    try:
        engine.submit(ask(model="m3", steps=3, seeds=(1, 2))).result(TIMEOUT_S)
    finally:
        assert engine.stop(TIMEOUT_S)
    rows = samples(BATCH_ROWS)
    assert rows["safelight_engine_batch_rows_count", "m3"] == 3
    assert rows["safelight_engine_batch_rows_sum", "m3"] == 6


@pytest.mark.parametrize("wanted", ["cpu", "simulated:step_s=1"])
def test_without_a_gpu_the_worker_s_own_memory_is_told(wanted: str) -> None:
    """Against what the machine has."""
    reading = read_device(wanted)
    assert 0 < reading.memory["used"] < reading.memory["total"]
    assert reading.busy is None


def test_gauges_are_asked_at_the_scrape_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the start to the stop, under the device's label."""
    asked: list[str] = []

    def read(wanted: str) -> Reading:
        asked.append(wanted)
        return Reading({"used": 5, "total": 10}, 0.25)

    monkeypatch.setattr(gauges, "read_device", read)
    registry = CollectorRegistry()
    device = DeviceGauges("cuda:1", "NVIDIA H200", registry)
    device.start()
    assert asked == []
    text = generate_latest(registry).decode()
    assert 'safelight_device_memory_bytes{device="NVIDIA H200",kind="used"} 5.0' in text
    assert 'safelight_device_utilization_ratio{device="NVIDIA H200"} 0.25' in text
    device.stop()
    device.stop()
    assert (generate_latest(registry), asked) == (b"", ["cuda:1"])


class Nvml:
    """A driver's library that fails at one of its functions."""

    def __init__(self, failing: str) -> None:
        self._failing = failing

    def __getattr__(self, name: str) -> Any:
        """Each function tells something, or fails."""
        if name == self._failing:
            raise AttributeError(name)
        told = {"nvmlDeviceGetMemoryInfo": Figures(used=3, total=9), "nvmlDeviceGetUtilizationRates": Figures(gpu=50)}
        return lambda *_arguments: told.get(name)


class Figures:
    """What a function of the library tells."""

    def __init__(self, **values: int) -> None:
        self.__dict__.update(values)


class Torch:
    """Torch on a machine with a GPU."""

    def __init__(self) -> None:
        self.cuda = self

    def is_initialized(self) -> bool:
        """The engine uses it."""
        return True

    def memory_allocated(self, index: int) -> int:
        """Bytes."""
        return 1

    def memory_reserved(self, index: int) -> int:
        """Bytes."""
        return 2

    def get_device_properties(self, index: int) -> Figures:
        """An identity."""
        return Figures(uuid=7)


@pytest.mark.parametrize(
    ("failing", "kinds", "busy"),
    [
        ("", {"allocated": 1, "reserved": 2, "used": 3, "total": 9}, 0.5),
        ("nvmlInit", {"allocated": 1, "reserved": 2}, None),
        ("nvmlDeviceGetMemoryInfo", {"allocated": 1, "reserved": 2}, None),
        ("nvmlDeviceGetUtilizationRates", {"allocated": 1, "reserved": 2, "used": 3, "total": 9}, None),
    ],
)
def test_a_gpu_is_told_as_far_as_its_driver_tells(
    monkeypatch: pytest.MonkeyPatch, failing: str, kinds: dict[str, int], busy: float | None
) -> None:
    """A part of a GPU tells no utilization; without the library torch's own part is left."""
    monkeypatch.setitem(sys.modules, "torch", Torch())
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(failing))
    assert read_device("cuda:0") == Reading(kinds, busy)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_real_gpu_tells_its_memory() -> None:
    """Through NVML, found by its identity."""
    torch.zeros(1, device="cuda:0")
    memory = read_device("cuda:0").memory
    assert 0 < memory["used"] < memory["total"]
    assert memory["allocated"] <= memory["reserved"] <= memory["total"]
