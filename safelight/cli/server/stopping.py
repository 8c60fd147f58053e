"""SIGINT and SIGTERM: the first asks to stop, the second stops hard."""

from __future__ import annotations

import os
import queue
import signal
from collections.abc import Callable
from types import FrameType

from safelight.cli.exits import ExitCode


class Interrupted(Exception):  # noqa: N818 - it is no error: somebody asked to stop
    """A signal came while the process was still starting."""


class StopSignal:
    """Waits for a reason to stop: a signal, or whatever ``wake`` was called for. Made on the main thread."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._hard: list[Callable[[], None]] = []
        self.signaled = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def on_hard_stop(self, action: Callable[[], None]) -> None:
        """Call ``action`` before a second signal ends the process."""
        self._hard.append(action)

    def wake(self, reason: str) -> None:
        """End ``wait`` with ``reason``; from any thread."""
        self._events.put(reason)

    def wait(self, timeout: float | None = None) -> str | None:
        """``signal``, a reason of ``wake``, or None after ``timeout`` seconds."""
        try:
            return self._events.get(timeout=timeout)
        except queue.Empty:
            return None

    def check(self) -> None:
        """Raise Interrupted when a signal came."""
        if self.signaled:
            raise Interrupted

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self.signaled:
            for action in self._hard:
                action()
            os._exit(ExitCode.INTERRUPTED)
        self.signaled = True
        self._events.put("signal")
