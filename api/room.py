"""A bound on what is held at once, so that no burst of large bodies takes all memory, and a share of it for each."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from api.problems import ProblemError

_BUSY = {"Retry-After": "5"}


class Held:
    """Room that somebody has."""

    def __init__(self) -> None:
        """None so far."""
        self._parts: list[tuple[Room, int]] = []

    async def enter(self, room: Room, size: int) -> None:
        """Wait for so much of ``room``; more than there is at all has it for itself."""
        self._parts.append((room, await room._enter(size)))

    def shrink(self, size: int) -> None:
        """Give back all but ``size``."""
        parts, self._parts = self._parts, [(room, min(had, size)) for room, had in self._parts]
        for room, had in parts:
            if had > size:
                room._leave(had - size)


class Room:
    """Room for so many bytes in all, and less for one owner; whoever finds none waits in line for a bounded time.

    An owner's own wait in a line before that of all. For one event loop.
    """

    def __init__(self, most_bytes: int, wait_s: float = 10.0, each: int | None = None) -> None:
        """``each`` is how many one owner may have of the bytes that there are: all, else."""
        self.used = 0
        self._most = most_bytes
        self._each = most_bytes if each is None else each
        self._wait_s = wait_s
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()
        # An owner's is there as long as somebody waits for it or has it.
        self._own: WeakValueDictionary[Hashable, Room] = WeakValueDictionary()

    @asynccontextmanager
    async def take(self, size: int, owner: Hashable = None) -> AsyncIterator[Held]:
        """Hold ``size`` bytes; without an ``owner`` they are of nobody's share. Raises ProblemError."""
        held = Held()
        try:
            try:
                async with asyncio.timeout(self._wait_s):
                    if owner is not None:
                        await held.enter(self._own.setdefault(owner, Room(self._each)), size)
                    await held.enter(self, size)
            except TimeoutError:
                detail = "too many pictures are on their way at the moment"
                raise ProblemError(503, "unavailable", detail, headers=_BUSY) from None
            yield held
        finally:
            held.shrink(0)

    async def _enter(self, size: int) -> int:
        """How much is held, when its turn has come."""
        size = min(size, self._most)
        if not self._line and self.used + size <= self._most:
            self.used += size
            return size
        place = size, asyncio.get_running_loop().create_future()
        self._line.append(place)
        try:
            await place[1]
        except asyncio.CancelledError:
            if place in self._line:
                self._line.remove(place)
                self._let_in()
            else:  # its turn came at the same moment
                self._leave(size)
            raise
        return size

    def _leave(self, size: int) -> None:
        self.used -= size
        self._let_in()

    def _let_in(self) -> None:
        while self._line and self.used + self._line[0][0] <= self._most:
            size, turn = self._line.popleft()
            self.used += size
            if not turn.done():
                turn.set_result(None)
