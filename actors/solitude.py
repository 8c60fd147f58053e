"""A job on its last chance is rendered alone.

When a process dies, every job that it held counts a rescue: nobody can tell which of them killed it. Those that were
rescued together come back together, and would be dead together with the one that is to blame. So the last time round
a job has the process to itself: then it is the culprit or it is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jobstore.job import Job
from safelight.telemetry import get_logger

_log = get_logger(__name__)


def on_last_chance(job: Job, max_rescues: int) -> bool:
    """True when the next rescue makes the job dead. It takes one rescue, at least, to come under suspicion."""
    return job.rescues >= max(1, max_rescues - 1)


class Solitude:
    """Keeps the others out while a job on its last chance is rendered. Belongs to the actors' event loop."""

    def __init__(self, max_rescues: int) -> None:
        """``max_rescues`` is how many make a job dead."""
        self._max_rescues = max_rescues
        self._open = asyncio.Event()
        self._open.set()
        self._left = asyncio.Event()
        self._present = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """From before a claim to the end of what it brought. Begins when no job is alone, or waits to be."""
        await self._open.wait()
        self._present += 1
        try:
            yield
        finally:
            self._present -= 1
            self._left.set()

    @asynccontextmanager
    async def of(self, job: Job) -> AsyncIterator[bool]:
        """In a turn, for as long as a claimed job is rendered and settled. False: it is to be handed back.

        That is so where the claim was under way when another's wish to be alone became known.
        """
        if not self._open.is_set():
            yield False
            return
        if not on_last_chance(job, self._max_rescues):
            yield True
            return
        self._open.clear()
        try:
            _log.warning("rendered alone, on its last chance", action="solitude.alone", rescues=job.rescues)
            await self._alone()
            yield True
        finally:
            self._open.set()

    async def _alone(self) -> None:
        while self._present > 1:
            self._left.clear()
            await self._left.wait()
