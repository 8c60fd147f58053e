"""The line of requests before the engine, and who is inside. Pure Python: no torch here.

A request's way: waiting -> inside -> its future holds a result or one of EngineError's kinds. Canceled and late
requests leave the line at the next step boundary of whatever is being rendered, so that nobody waits for a picture
that nobody wants.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import InvalidStateError

from actors.engine.errors import CanceledError, DeadlineExceededError, EngineError, EngineStoppedError
from actors.engine.request import Handle, RenderResult


class Line:
    """Requests in the order in which they came, and those that were let in. Safe to use from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: dict[Handle, None] = {}
        self._inside: set[Handle] = set()
        self._changed = threading.Condition()
        self._closed = False
        self._woken = False

    @property
    def closed(self) -> bool:
        """True once the engine takes no more requests."""
        return self._closed

    @property
    def busy(self) -> bool:
        """True while a request waits or is rendered."""
        with self._changed:
            return bool(self._inside or self._waiting)

    def put(self, handle: Handle) -> None:
        """Let a request wait. Raises EngineStoppedError once the engine is stopping."""
        with self._changed:
            if self._closed:
                raise EngineStoppedError("the engine is stopped and takes no more requests")
            handle.submitted_at = self._clock()
            self._waiting[handle] = None
            self._woken = True
            self._changed.notify_all()

    def waiting(self) -> tuple[Handle, ...]:
        """Those that wait, in order."""
        with self._changed:
            return tuple(self._waiting)

    def wait(self, timeout: float) -> None:
        """Until a request comes in, the line is closed, somebody calls ``wake``, or so many seconds are over."""
        with self._changed:
            if not self._closed and not self._woken:
                self._changed.wait(timeout)
            self._woken = False

    def wake(self) -> None:
        """Something has changed that whoever waits should look at."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def enter(self, handle: Handle) -> bool:
        """Let a request in; False where it no longer waits, or nobody waits for it: its future was canceled."""
        with self._changed:
            if handle not in self._waiting:  # the line was closed meanwhile
                return False
            del self._waiting[handle]
            if not handle.future.set_running_or_notify_cancel():
                return False
            self._inside.add(handle)
            return True

    def leave(self, handle: Handle, outcome: RenderResult | EngineError) -> None:
        """Give a request its outcome, wherever it is."""
        with self._changed:
            self._waiting.pop(handle, None)
            self._inside.discard(handle)
        with contextlib.suppress(InvalidStateError):  # its future was canceled from outside, or it has its outcome
            if isinstance(outcome, EngineError):
                handle.future.set_exception(outcome)
            else:
                handle.future.set_result(outcome)

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
        for handle in self.waiting():
            reason = self.reason_to_stop(handle)
            if reason is not None:
                self.leave(handle, reason)
            elif handle.future.cancelled():
                self.leave(handle, CanceledError("nobody waits for it any more"))

    def close(self) -> None:
        """Take no more requests; those that wait fail with EngineStoppedError, those inside at their next step."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self.prune()

    def abandon(self, error: EngineError) -> None:
        """Fail everything, what is inside too, because the engine's thread has ended."""
        with self._changed:
            self._closed = True
            handles = [*self._inside, *self._waiting]
            self._changed.notify_all()
        for handle in handles:
            self.leave(handle, error)
