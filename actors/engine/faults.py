"""What went wrong in a step, and what is left to do about it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum, auto

from actors.engine.errors import EngineError, OutOfMemoryError
from actors.engine.stepping import BatchKey


class Fault(Enum):
    """What kind of fault an exception is: of memory, of the device itself, or of what was asked of it."""

    MEMORY = auto()
    DEVICE = auto()
    ROW = auto()


def fault_of(error: BaseException) -> Fault:
    """The kind. A CUDA error other than out of memory leaves a device of which nothing more can be had."""
    if isinstance(error, OutOfMemoryError):
        return Fault.MEMORY
    if isinstance(error, EngineError) or "torch" not in sys.modules:  # the simulated device does without
        return Fault.ROW
    from actors.engine.devices import is_device_lost, is_out_of_memory

    if is_out_of_memory(error):
        return Fault.MEMORY
    return Fault.DEVICE if is_device_lost(error) else Fault.ROW


class BatchLimits:
    """How many rows of a key the device had memory for, as far as it ran out of it.

    A limit is forgotten after ``forget_s`` seconds: what filled the memory may be gone.
    """

    def __init__(self, clock: Callable[[], float], forget_s: float = 300.0) -> None:
        self._clock = clock
        self._forget_s = forget_s
        self._limits: dict[BatchKey, tuple[int, float]] = {}

    def of(self, key: BatchKey, wanted: int) -> int:
        """``wanted``, or less where the device ran out of memory with more."""
        limit, since = self._limits.get(key, (wanted, 0.0))
        if self._clock() - since > self._forget_s:
            self._limits.pop(key, None)
            return wanted
        return max(1, min(limit, wanted))

    def ran_out(self, key: BatchKey, rows: int) -> None:
        """The device had not enough memory for so many rows."""
        self._limits[key] = ((rows + 1) // 2, self._clock())


def as_engine_error(error: BaseException, *, device: str, size: str = "") -> EngineError:
    """The error that a request fails with; what is told holds nothing of the exception but its kind."""
    if isinstance(error, EngineError):
        return error
    if fault_of(error) is Fault.MEMORY:
        return OutOfMemoryError(f"{device} has not enough memory{f' for one picture of {size}' if size else ''}")
    return EngineError(f"the render failed: {type(error).__name__}")
