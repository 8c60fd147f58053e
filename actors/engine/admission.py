"""Which request is rendered next, and when one leaves without a picture. Pure Python: no torch here.

A request's way: waiting -> rendering -> its future holds a result or one of EngineError's kinds. Canceled and late
requests leave the waiting line at the next step boundary of whatever is being rendered, so that nobody waits for a
picture that nobody wants.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import InvalidStateError

from actors.engine.errors import CanceledError, DeadlineExceededError, EngineError, EngineStoppedError
from actors.engine.request import Handle, RenderResult


class Admission:
    """The waiting line of one engine, first in first out. Safe to use from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: deque[Handle] = deque()
        self._current: Handle | None = None
        self._changed = threading.Condition()
        self._closed = False

    @property
    def closed(self) -> bool:
        """True once the engine takes no more requests."""
        return self._closed

    @property
    def busy(self) -> bool:
        """True while a request waits or is rendered."""
        with self._changed:
            return self._current is not None or bool(self._waiting)

    def put(self, handle: Handle) -> None:
        """Let a request wait. Raises EngineStoppedError once the engine is stopping."""
        with self._changed:
            if self._closed:
                raise EngineStoppedError("the engine is stopped and takes no more requests")
            self._waiting.append(handle)
            self._changed.notify_all()

    def take(self) -> Handle | None:
        """Wait for the next request that still wants pictures; None once the line is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return None
                handle = self._current = self._waiting.popleft()
            reason = self.reason_to_stop(handle)
            if reason is None and handle.future.set_running_or_notify_cancel():
                return handle
            self.leave(handle, reason)

    def leave(self, handle: Handle, outcome: RenderResult | EngineError | None) -> None:
        """Give a request its outcome; None where its future was canceled from outside."""
        with self._changed:
            if self._current is handle:
                self._current = None
        _settle(handle, outcome)

    def reason_to_stop(self, handle: Handle) -> EngineError | None:
        """Why the request should be rendered no further; None if it should go on."""
        if handle.cancel_requested:
            return CanceledError("the request was canceled")
        deadline = handle.request.deadline
        if deadline is not None and self._clock() >= deadline:
            return DeadlineExceededError("the deadline passed before the pictures were done")
        if self._closed:
            return EngineStoppedError("the engine was stopped before the pictures were done")
        return None

    def prune(self) -> None:
        """Let go of waiting requests that were canceled or whose deadline passed."""
        with self._changed:
            reasons = [(handle, self.reason_to_stop(handle)) for handle in self._waiting]
            self._waiting = deque(handle for handle, reason in reasons if reason is None)
        for handle, reason in reasons:
            if reason is not None:
                _settle(handle, reason)

    def close(self) -> None:
        """Take no more requests; those that wait fail with EngineStoppedError, the current one at its next step."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self.prune()

    def abandon(self, error: EngineError) -> None:
        """Fail everything, the current request too, because the engine's thread has died."""
        with self._changed:
            self._closed = True
            handles = [*([self._current] if self._current else []), *self._waiting]
            self._current = None
            self._waiting.clear()
            self._changed.notify_all()
        for handle in handles:
            _settle(handle, error)


def _settle(handle: Handle, outcome: RenderResult | EngineError | None) -> None:
    if outcome is None:
        return
    with contextlib.suppress(InvalidStateError):  # its future was canceled from outside
        if isinstance(outcome, EngineError):
            handle.future.set_exception(outcome)
        else:
            handle.future.set_result(outcome)
