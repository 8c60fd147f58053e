"""Reads that many streams want at once are done once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar, cast

T = TypeVar("T")


class SharedReads:
    """Joins callers that want the same read. For one event loop.

    Nobody gets the result of a read that began before the call: it might lack what the caller was woken for. So who
    comes while one is under way shares the next.
    """

    def __init__(self) -> None:
        self._next: dict[Hashable, asyncio.Task[Any]] = {}
        self._running: dict[Hashable, asyncio.Task[Any]] = {}

    async def read(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """The result of ``work``, or of another caller's with the same key. Canceling one caller leaves the others."""
        task = self._next.get(key)
        if task is None:
            task = self._next[key] = asyncio.create_task(self._run(key, work))
            task.add_done_callback(_heard)
        return cast(T, await asyncio.shield(task))

    async def _run(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        before = self._running.get(key)
        if before is not None:
            await asyncio.wait([before])
        this = self._next.pop(key)
        self._running[key] = this
        try:
            return await work()
        finally:
            if self._running.get(key) is this:
                del self._running[key]


def _heard(task: asyncio.Task[Any]) -> None:
    """Whoever waited has the error; all of them may have gone."""
    if not task.cancelled():
        task.exception()
