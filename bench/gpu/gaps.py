"""How much of a step's time no kernel runs: what launches cost, and what graphs can win."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from bench.gpu.timing import settle

_STEPS = 5


def idle_share(intervals: Iterable[tuple[float, float]]) -> float:
    """The share of the time from the first begin to the last end that no interval covers, in 0…1."""
    ordered = sorted(intervals)
    if not ordered:
        return 1.0
    first, covered, end = ordered[0][0], 0.0, ordered[0][0]
    for begin, until in ordered:
        covered += max(0.0, until - max(begin, end))
        end = max(end, until)
    return 1.0 - covered / (end - first) if end > first else 0.0


def step_gaps(step: Callable[[], object], device: str) -> float:
    """The share of some steps' time in which no kernel (on a CPU: no operator) ran.

    The profiler makes launches slower than they are: compare its shares with each other.
    """
    cuda = device.startswith("cuda")
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]) as profiler:
        for _ in range(_STEPS):
            step()
        settle(device)
    wanted = DeviceType.CUDA if cuda else DeviceType.CPU
    events = profiler.events() or []
    return idle_share((event.time_range.start, event.time_range.end) for event in events if event.device_type == wanted)
