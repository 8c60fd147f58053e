"""Work that is carried to its end, whoever waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Shielded:
    """Runs coroutines that no caller's cancellation reaches. Belongs to one event loop.

    A caller that is canceled (a client that went away) leaves its transaction to end by itself: a query that is broken
    off would cost a connection, or leave it in the middle of something.
    """

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def drain(self, limit_s: float = 10.0) -> None:
        """Wait until all that runs has ended; what has not within ``limit_s`` seconds is broken off."""
        if not self._running:
            return
        _, late = await asyncio.wait(self._running, timeout=limit_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited has it; nobody may have
