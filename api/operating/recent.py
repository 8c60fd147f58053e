"""What is made once for all that ask within a moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakValueDictionary

_MOST = 1_000


class Recent:
    """Results by name, each made anew once it is too old. Belongs to the event loop that it is used on."""

    def __init__(self, keep_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """``keep_s`` is how old a result may be, in seconds."""
        self._keep_s = keep_s
        self._clock = clock
        self._made: dict[str, tuple[float, Any]] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def get(self, name: str, make: Callable[[], Awaitable[Any]]) -> Any:
        """The result of that name; whoever asks while it is made waits for it, and for no other.

        What ``make`` raises is not kept.
        """
        lock = self._locks.setdefault(name, asyncio.Lock())  # it lives as long as anyone holds it or waits for it
        async with lock:
            made_at, result = self._made.get(name, (float("-inf"), None))
            if self._clock() - made_at <= self._keep_s:
                return result
            if len(self._made) >= _MOST:
                self._made.clear()
            result = await make()
            if self._locks.get(name) is lock:  # nobody has forgotten it meanwhile
                self._made[name] = (self._clock(), result)
            return result

    def forget(self, name: str) -> None:
        """Something changed: whoever asks from now on gets what is made from now on."""
        self._made.pop(name, None)
        self._locks.pop(name, None)
