"""What a worker tells of itself with each beat: its memory, its models, and how busy its device was lately."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from actors.gauges import read_device
from actors.renderer import Renderer
from jobstore.operating.workers import MODELS_TOLD, WorkerReport
from safelight import __version__

_WINDOW_S = 60.0


class Reporter:
    """Belongs to whoever beats: what it tells is of the time since its first report, up to the last minute."""

    def __init__(self, engine: Renderer, device: str, slots: int, clock: Callable[[], float] = time.monotonic) -> None:
        """``device`` is torch's name as the settings have it."""
        self._engine = engine
        self._device = device
        self._slots = slots
        self._clock = clock
        self._busy: deque[tuple[float, float]] = deque([(clock(), engine.busy_seconds)])

    def report(self, held: int) -> WorkerReport:
        """The worker as it is now, with so many jobs held."""
        memory = read_device(self._device).memory
        return WorkerReport(
            version=__version__,
            slots=self._slots,
            held=held,
            memory_used=memory.get("used"),
            memory_total=memory.get("total"),
            models=self._engine.loaded[:MODELS_TOLD],
            occupancy=self._occupancy(),
        )

    def _occupancy(self) -> float:
        """The share of the last minute that the device was busy."""
        now, busy = self._clock(), self._engine.busy_seconds
        self._busy.append((now, busy))
        while len(self._busy) > 2 and self._busy[1][0] <= now - _WINDOW_S:
            self._busy.popleft()
        since, before = self._busy[0]
        return round(min(max(busy - before, 0.0) / max(now - since, 1e-3), 1.0), 4)
