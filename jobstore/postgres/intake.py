"""Group commit: submits that come while one transaction is under way are written together in the next.

A commit waits for the disk whether it holds one job or fifty, and so does each way to the server and back. Nobody waits
for company: who comes to an idle intake is written at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass

from psycopg import InterfaceError, OperationalError

from jobstore.job import Job, NewJob
from jobstore.postgres.submit import Accepted

_MOST = 64  # jobs a transaction: more would keep the first ones waiting for little gain
_AT_ONCE = 1  # transactions: while one waits for its commit, another can be worked on
_WAITING = 10_000


@dataclass(slots=True)
class _Asked:
    new: NewJob
    answer: asyncio.Future[Job]

    @property
    def key(self) -> Hashable:
        """What no two jobs of one transaction may share."""
        return (self.new.key_id, self.new.replay.key) if self.new.replay else self.new.id


class Intake:
    """Writes submits in batches. Belongs to one event loop."""

    def __init__(
        self,
        write: Callable[[Sequence[NewJob]], Awaitable[list[Accepted]]],
        write_one: Callable[[NewJob], Awaitable[Job]],
    ) -> None:
        """``write`` writes many in one transaction, ``write_one`` one by the rules: what the other leaves to it."""
        self._write = write
        self._write_one = write_one
        self._waiting: list[_Asked] = []
        self._running: set[asyncio.Task[None]] = set()
        self._about_to = False

    async def submit(self, new: NewJob) -> Job:
        """The job. A caller that is canceled leaves it to be written. Raises what the store's ``submit`` does.

        Raises TimeoutError where too many wait to be written.
        """
        if len(self._waiting) >= _WAITING:
            raise TimeoutError("too many submits wait to be written")
        asked = _Asked(new, asyncio.get_running_loop().create_future())
        asked.answer.add_done_callback(_heard)
        self._waiting.append(asked)
        self._go_on()
        return await asyncio.shield(asked.answer)

    async def drain(self) -> None:
        """Wait until nothing is left to be written."""
        while self._running:
            await asyncio.wait(self._running)

    def _go_on(self) -> None:
        # A transaction takes its batch when its task first runs: until then, those that come at the same time join it.
        if self._waiting and not self._about_to and len(self._running) < _AT_ONCE:
            self._about_to = True
            task = asyncio.create_task(self._write_next(), name="intake")
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._go_on()

    async def _write_next(self) -> None:
        batch = self._next_batch()
        self._about_to = False
        self._go_on()
        try:
            found = await self._write([asked.new for asked in batch])
        except (OperationalError, InterfaceError, TimeoutError) as error:
            for asked in batch:  # whether it was committed is not known: a client that asks again has its key
                asked.answer.set_exception(error)
            return
        except Exception:
            found = [None] * len(batch)  # one of them is at fault: alone each gets its own answer
        except BaseException:
            for asked in batch:
                asked.answer.cancel()
            raise
        alone = []
        for asked, outcome in zip(batch, found, strict=True):
            if isinstance(outcome, Job):
                asked.answer.set_result(outcome)
            elif outcome is not None:
                asked.answer.set_exception(outcome)
            else:
                alone.append(asked)
        for asked in alone:
            await self._write_alone(asked)

    async def _write_alone(self, asked: _Asked) -> None:
        try:
            asked.answer.set_result(await self._write_one(asked.new))
        except Exception as error:
            asked.answer.set_exception(error)

    def _next_batch(self) -> list[_Asked]:
        """The first that wait; of those with one idempotency key only the first."""
        batch: list[_Asked] = []
        left: list[_Asked] = []
        keys: set[Hashable] = set()
        for asked in self._waiting:
            if len(batch) < _MOST and asked.key not in keys:
                keys.add(asked.key)
                batch.append(asked)
            else:
                left.append(asked)
        self._waiting = left
        return batch


def _heard(answer: asyncio.Future[Job]) -> None:
    """Whoever waited has the error; they may have gone."""
    if not answer.cancelled():
        answer.exception()
