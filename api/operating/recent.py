"""What is made once for all that ask within a moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

_MOST = 1_000


class Recent:
    """Results by name, each made anew once it is too old. Belongs to the event loop that it is used on."""

    def __init__(self, keep_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """``keep_s`` is how old a result may be, in seconds."""
        self._keep_s = keep_s
        self._clock = clock
        self._made: dict[str, tuple[float, Any]] = {}
        self._lock = asyncio.Lock()

    async def get(self, name: str, make: Callable[[], Awaitable[Any]]) -> Any:
        """The result of that name; whoever asks while it is made waits for it. What ``make`` raises is not kept."""
        async with self._lock:
            made_at, result = self._made.get(name, (float("-inf"), None))
            if self._clock() - made_at <= self._keep_s:
                return result
            if len(self._made) >= _MOST:
                self._made.clear()
            result = await make()
            self._made[name] = (self._clock(), result)
            return result
