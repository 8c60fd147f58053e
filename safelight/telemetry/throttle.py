"""Keeps a trouble that lasts from filling the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Throttle:
    """Says when to log a trouble: at once when it is new or has changed, then at most every ``every_s`` seconds."""

    def __init__(self, every_s: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was told yet."""
        self._every_s = every_s
        self._clock = clock
        self._told: dict[str, float] = {}
        self._lock = threading.Lock()

    def due(self, kind: str) -> bool:
        """True when trouble of that ``kind`` (an error's name, say) is to be told now; it then counts as told."""
        with self._lock:
            now = self._clock()
            if now - self._told.get(kind, float("-inf")) < self._every_s:
                return False
            self._told[kind] = now
            return True

    def over(self) -> bool:
        """Note that all is well; True where trouble was told since the last time."""
        with self._lock:
            told = bool(self._told)
            self._told.clear()
            return told
