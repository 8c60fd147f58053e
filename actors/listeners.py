"""Who listens to progress and previews within this process."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jobstore.live import Message
from safelight.telemetry import get_logger

_log = get_logger(__name__)

Listener = Callable[[Message], None]


class Listeners:
    """Who wants to hear."""

    def __init__(self) -> None:
        self._listeners: dict[object, Listener] = {}
        self._lock = threading.Lock()

    def add(self, listener: Listener) -> Callable[[], None]:
        """Add a listener; the result removes it, and may be called again."""
        ticket = object()
        with self._lock:
            self._listeners[ticket] = listener

        def remove() -> None:
            with self._lock:
                self._listeners.pop(ticket, None)

        return remove

    def tell(self, message: Message) -> None:
        """Call every listener; one that fails is no reason to leave out the others."""
        with self._lock:
            listeners = tuple(self._listeners.values())
        for listener in listeners:
            try:
                listener(message)
            except Exception:
                _log.exception("progress listener failed", action="progress.listener_failed")
