"""Who may read slowly now: searches and reports take turns, so that none of them holds up what jobs live by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from jobstore.errors import StoreBusyError


class Turns:
    """Turns for so many at once, fewer of one owner; whoever finds none waits for a bounded time."""

    def __init__(self, at_once: int, each: int, wait_s: float) -> None:
        """``each`` is how many one owner may have of the ``at_once`` that there are."""
        self._all = asyncio.Semaphore(at_once)
        self._each = each
        self._wait_s = wait_s
        # An owner's is there as long as somebody waits for it or has it.
        self._own: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def take(self, owner: Hashable) -> AsyncIterator[None]:
        """Have one of the owner's turns. Raises StoreBusyError."""
        own = self._own.setdefault(owner, asyncio.Semaphore(self._each))
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._wait_s):
                    for turns in (own, self._all):  # its own first: who waits for that keeps nobody else waiting
                        await stack.enter_async_context(turns)
            except TimeoutError:
                raise StoreBusyError("too many searches and reports are under way: try again in a moment") from None
            yield
