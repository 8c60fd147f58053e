"""How fast this worker's device renders, as measured between two beats."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from jobstore.job import JobRequest
from jobstore.protocol import Pace

_CAPACITY = 256
_LEAST_S, _MOST_S = 1e-6, 1e6


@dataclass(slots=True)
class _Measured:
    seconds: float = 0.0
    steps: int = 0


def _bounded(measured: _Measured) -> float:
    """Seconds a step. What no device can be is not told: averages of it would never be right again."""
    return min(max(measured.seconds / measured.steps, _LEAST_S), _MOST_S)


class Paces:
    """Device time by model and size. Belongs to the event loop of the actors."""

    def __init__(self) -> None:
        self._measured: OrderedDict[tuple[str, int, int, str], _Measured] = OrderedDict()

    def note(self, request: JobRequest, device: str, seconds: float, resumed_at: int = 0) -> None:
        """Take in a finished render that took so many seconds of device time, from step ``resumed_at`` on."""
        key = (request.model, request.width, request.height, device)
        measured = self._measured.setdefault(key, _Measured())
        measured.seconds += seconds
        measured.steps += max(request.steps - resumed_at, 0) * request.n
        if len(self._measured) > _CAPACITY:
            self._measured.popitem(last=False)

    def read(self) -> tuple[Pace, ...]:
        """What was measured since ``forget``."""
        return tuple(
            Pace(model=model, width=width, height=height, device=device, step_s=_bounded(measured))
            for (model, width, height, device), measured in self._measured.items()
            if measured.steps
        )

    def forget(self, told: Iterable[Pace]) -> None:
        """Begin anew with those that a beat has told."""
        for pace in told:
            self._measured.pop((pace.model, pace.width, pace.height, pace.device), None)
