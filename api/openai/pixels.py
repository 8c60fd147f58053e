"""Work on pixels beside the event loop: a bounded number of threads, so that no burst of pictures takes all memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_THREADS = 2
_UPLOADS = 4  # whose pictures are unpacked at a time


class PixelWork:
    """Encodes and decodes pictures for one API process. ``uploads`` is held while one is taken in."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="pixels")
        self.uploads = asyncio.Semaphore(_UPLOADS)

    async def run(self, work: Callable[[], T]) -> T:
        """The result of ``work``, once a thread was free for it."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """End the threads; what waits is dropped."""
        self._threads.shutdown(wait=False, cancel_futures=True)
