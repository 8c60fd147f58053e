"""When a stream has to say that it lives: proxies cut connections over which nothing has come for a while."""

from __future__ import annotations

import time


class Pulse:
    """Counts the time since the last byte, whatever else the stream was woken for."""

    def __init__(self, every_s: float) -> None:
        """A byte is to be sent every ``every_s`` seconds at least."""
        self._every_s = every_s
        self.beat()

    def beat(self) -> None:
        """Something was sent."""
        self._last = time.monotonic()

    @property
    def left_s(self) -> float:
        """Until something has to be sent."""
        return max(0.0, self._last + self._every_s - time.monotonic())

    @property
    def due(self) -> bool:
        """True when nothing was sent for that long."""
        return self.left_s <= 0
