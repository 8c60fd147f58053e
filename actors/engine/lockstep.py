"""A call that runs in steps: on a thread of its own, which works only while the caller waits for it.

A whole pipeline has its own loop, and a callback at each of its steps. Here the callback hands the baton back, so that
the engine's loop can step such a pipeline like any other row: never do both threads work at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class StoppedError(BaseException):
    """Ends the call at a step boundary. Not an ``Exception``: nothing on its way catches it."""


class Lockstep(Generic[T]):
    """Runs ``call(pause)``; ``pause()``, called inside, ends a step."""

    def __init__(self, call: Callable[[Callable[[], None]], T], name: str = "lockstep") -> None:
        self._call = call
        self._go = threading.Semaphore(0)
        self._paused = threading.Semaphore(0)
        self._stop = False
        self._result: T | None = None
        self._error: BaseException | None = None
        self.done = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def step(self) -> None:
        """Run to the next pause, or to the end. Raises what the call raises, once."""
        if self._thread.ident is None:
            self._thread.start()
        self._go.release()
        self._paused.acquire()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def result(self) -> T:
        """What the call returned. Raises RuntimeError before it has."""
        if not self.done or self._result is None:
            raise RuntimeError("the call has not returned")
        return self._result

    def stop(self) -> None:
        """End the call at the pause where it stands; it hears a StoppedError there."""
        if self.done or self._thread.ident is None:
            return
        self._stop = True
        self._go.release()
        self._paused.acquire()

    def _pause(self) -> None:
        self._paused.release()
        self._go.acquire()
        if self._stop:
            raise StoppedError

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._result = self._call(self._pause)
        except StoppedError:
            pass
        except BaseException as error:
            self._error = error.with_traceback(None)  # its frames hold the tensors that must be freed
        finally:
            self.done = True
            self._paused.release()
