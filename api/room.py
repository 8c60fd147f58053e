"""A bound on the bytes that are held at once, so that no burst of large bodies takes all memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from api.problems import ProblemError

_BUSY = {"Retry-After": "5"}


class Room:
    """Room for so many bytes in all; whoever finds none waits in line for a bounded time. For one event loop."""

    def __init__(self, most_bytes: int, wait_s: float = 10.0) -> None:
        self.used = 0
        self._most = most_bytes
        self._wait_s = wait_s
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def take(self, size: int) -> AsyncIterator[None]:
        """Hold ``size`` bytes; more than there are at all has the room for itself. Raises ProblemError."""
        size = min(size, self._most)
        await self._enter(size)
        try:
            yield
        finally:
            self._leave(size)

    async def _enter(self, size: int) -> None:
        if not self._line and self.used + size <= self._most:
            self.used += size
            return
        place = size, asyncio.get_running_loop().create_future()
        self._line.append(place)
        try:
            async with asyncio.timeout(self._wait_s):
                await place[1]
        except (TimeoutError, asyncio.CancelledError) as error:
            if place in self._line:
                self._line.remove(place)
                self._let_in()
            else:  # its turn came at the same moment
                self._leave(size)
            if isinstance(error, TimeoutError):
                detail = "too many pictures are on their way at the moment"
                raise ProblemError(503, "unavailable", detail, headers=_BUSY) from None
            raise

    def _leave(self, size: int) -> None:
        self.used -= size
        self._let_in()

    def _let_in(self) -> None:
        while self._line and self.used + self._line[0][0] <= self._most:
            size, turn = self._line.popleft()
            self.used += size
            if not turn.done():
                turn.set_result(None)
