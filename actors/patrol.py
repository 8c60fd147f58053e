"""Looks for jobs that nobody rang for: while the broker is away a worker goes on with what the store has.

With a broker that is well a look finds nothing: whoever has a free slot has answered the bell by then. Without one, a
look that finds a job is followed by others, until all slots are taken or nothing waits.
"""

from __future__ import annotations

import asyncio
import random

from actors.render import RenderActor
from safelight.config import WorkerSettings


class Patrol:
    """Belongs to the event loop of the actors."""

    def __init__(self, actor: RenderActor, settings: WorkerSettings) -> None:
        self._actor = actor
        self._settings = settings
        self._rounds: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await asyncio.sleep(self._settings.look_s * random.uniform(0.75, 1.25))  # noqa: S311 - no secret
            if not self._rounds:
                self._begin()

    async def ended(self) -> None:
        """Wait for the jobs that looks have found."""
        while self._rounds:
            await asyncio.gather(*self._rounds, return_exceptions=True)

    def _begin(self) -> None:
        """Go round the lanes with one of the free slots, if there is one."""
        if not self._actor.full:
            work = asyncio.create_task(self._round())
            self._rounds.add(work)
            work.add_done_callback(self._rounds.discard)

    async def _round(self) -> None:
        for lane in self._settings.lanes:
            while not self._actor.full and await self._actor.take(lane, self._begin):
                pass
