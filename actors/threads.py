"""Threads that cost nothing until they are needed."""

from __future__ import annotations

import threading
from collections.abc import Callable


class LazyThread:
    """A daemon thread that starts when it is first needed."""

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=run, name=name, daemon=True)
        self._lock = threading.Lock()

    def ensure(self) -> None:
        """Start it unless it has been started."""
        with self._lock:
            if self._thread.ident is None:
                self._thread.start()

    def join(self, timeout: float = 5.0) -> None:
        """Wait for its end, if it ever started."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
