"""Marks in a device's work: how the loop knows that a step is done without making the device wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from actors.engine.devices import Device


class Mark(Protocol):
    """A point in the work that a device was given."""

    def wait(self) -> None:
        """Until the device has come to it. Raises what went wrong on the way."""


class Marks(Protocol):
    """Sets marks. ``depth`` is how many steps may be under way before the loop waits for the first of them."""

    depth: int

    def set(self) -> Mark:
        """A mark after all work that the device was given by the calling thread."""


class _Passed:
    def wait(self) -> None:
        """At once."""


class Immediate:
    """For devices whose work is done when a call returns."""

    depth = 0

    def set(self) -> Mark:
        """A mark that is passed already."""
        return _Passed()


class CudaMarks:
    """CUDA events. One step is launched while another runs: the device finds its next work waiting."""

    depth = 1

    def __init__(self, place: str) -> None:
        import torch

        self._stream = torch.cuda.current_stream(place)

    def set(self) -> Mark:
        """A mark on the calling thread's stream."""
        event = self._stream.record_event()
        return _Event(event.synchronize)


class _Event:
    def __init__(self, synchronize: Callable[[], None]) -> None:
        self.wait = synchronize


def marks_of(device: Device) -> Marks:
    """What sets marks on a device. To be called on the engine's thread."""
    return CudaMarks(device.place) if device.kind == "cuda" else Immediate()
