"""How long the device has worked: each second is counted once, whoever it worked for."""

from __future__ import annotations

import threading

from actors.engine.observer import Observer


class BusyTime:
    """Charges spans of work, in seconds of one clock. Safe to use from any thread."""

    def __init__(self, observer: Observer) -> None:
        """``observer`` hears of what is charged."""
        self._observer = observer
        self._until = float("-inf")
        self._seconds = 0.0
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """All that was charged."""
        return self._seconds

    def charge(self, began: float, ended: float) -> float:
        """What of a span has not been charged yet, in seconds."""
        with self._lock:
            seconds = max(ended - max(began, self._until), 0.0)
            self._until = max(self._until, ended)
            self._seconds += seconds
        self._observer.busy(seconds)
        return seconds
