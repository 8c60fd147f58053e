"""Group commit: submits that come while a transaction is under way are written together in the next.

A commit waits for the disk whether it holds one job or fifty, and so does each way to the server and back. Nobody waits
for company: who comes to an idle intake is written at once. Who has to wait for a quota's lock is written apart, so
that nobody else waits with them.

A transaction takes no more than half of those that lately waited at once. Clients that ask again when they are answered
would else all come together and wait together: the server of the API idle while the database writes, and the other way
round.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import InterfaceError, OperationalError

from jobstore.job import Job, NewJob
from jobstore.postgres.submit import Accepted

_MOST = 256  # jobs a transaction: more would keep the first ones waiting for little gain
_FEW = 16  # so many are always taken: what a transaction costs beside its jobs is more than theirs
_WRITERS = 2  # of a group with quotas: the second waits at their locks, in the database, while the first commits
_FORGET = 0.95  # of the most that waited, a transaction
_WAITING = 10_000

Group = Hashable
"""Whose quotas' locks are waited for; None is the group of all that wait for nobody's lock."""


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
        group_of: Callable[[NewJob], Group],
        locks: Callable[[Group], bool],
        at_once: int,
    ) -> None:
        """``write`` writes many in one transaction, ``write_one`` one by the rules: what the other leaves to it.

        There are ``at_once`` transactions at a time, of each group one, or two where it ``locks`` quotas, and a third
        as many of those written alone.
        """
        self._write = write
        self._write_one = write_one
        self._group_of = group_of
        self._locks = locks
        self._waiting: dict[Group, list[_Asked]] = {}
        self._count = 0
        self._peak = 0.0  # the most that waited at once, of late
        self._writers: Counter[Group] = Counter()
        self._running: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(at_once)
        self._aside = asyncio.Semaphore(max(1, at_once // 3))  # a storm of repeats keeps no fresh submit waiting

    async def submit(self, new: NewJob) -> Job:
        """The job. A caller that is canceled leaves it to be written. Raises what the store's ``submit`` does.

        Raises TimeoutError where too many wait to be written.
        """
        if self._count >= _WAITING:
            raise TimeoutError("too many submits wait to be written")
        asked = _Asked(new, asyncio.get_running_loop().create_future())
        self._count += 1
        group = self._group_of(new)
        self._waiting.setdefault(group, []).append(asked)
        # Without a lock two at a time would take the same places in the queue.
        if self._writers[group] < (_WRITERS if self._locks(group) else 1):
            self._writers[group] += 1
            self._start(self._write_group(group))
        return await asked.answer

    async def drain(self) -> None:
        """Wait until nothing is left to be written."""
        while self._running:
            await asyncio.wait(self._running)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="intake")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _settle(self, asked: _Asked, outcome: Job | BaseException) -> None:
        """Tell whoever asked, if they haven't gone."""
        self._count -= 1
        if asked.answer.done():
            return
        if isinstance(outcome, Job):
            asked.answer.set_result(outcome)
        elif isinstance(outcome, asyncio.CancelledError):
            asked.answer.cancel()
        else:
            asked.answer.set_exception(outcome)

    async def _write_group(self, group: Group) -> None:
        """Write what waits in a group until nothing does. A batch is taken when there is room for its transaction."""
        try:
            while True:
                async with self._room:
                    batch = self._next_batch(group)
                    if not batch:
                        return
                    await self._write_batch(batch)
        finally:
            self._writers[group] -= 1
            if not self._writers[group]:
                del self._writers[group]

    async def _write_batch(self, batch: Sequence[_Asked]) -> None:
        try:
            found = await self._write([asked.new for asked in batch])
        except Exception as error:
            if _is_lost(error):
                for asked in batch:  # whether it was committed is not known: a client that asks again has its key
                    self._settle(asked, error)
            elif len(batch) == 1:
                await self._write_alone(batch[0])
            else:  # one of them is at fault, or two batches are in each other's way: halves find out
                for part in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
                    await self._write_batch(part)
            return
        except BaseException as error:
            for asked in batch:
                self._settle(asked, error)
            raise
        for asked, outcome in zip(batch, found, strict=True):
            if outcome is not None:
                self._settle(asked, outcome)
            else:
                self._start(self._write_in_turn(asked))

    async def _write_in_turn(self, asked: _Asked) -> None:
        async with self._aside:
            await self._write_alone(asked)

    async def _write_alone(self, asked: _Asked) -> None:
        try:
            job = await self._write_one(asked.new)
        except BaseException as error:
            self._settle(asked, error)
            if not isinstance(error, Exception):
                raise
        else:
            self._settle(asked, job)

    def _next_batch(self, group: Group) -> list[_Asked]:
        """The first that wait; of those with one idempotency key only the first."""
        batch: list[_Asked] = []
        left: list[_Asked] = []
        keys: set[Hashable] = set()
        self._peak = max(self._count, self._peak * _FORGET)
        most = min(_MOST, max(_FEW, math.ceil(self._peak / 2)))
        for asked in self._waiting.pop(group, ()):
            if len(batch) < most and asked.key not in keys:
                keys.add(asked.key)
                batch.append(asked)
            else:
                left.append(asked)
        if left:
            self._waiting[group] = left
        return batch


def _is_lost(error: Exception) -> bool:
    """True where the connection went, or nothing answered: it isn't known what became of the transaction."""
    if isinstance(error, (InterfaceError, TimeoutError)):
        return True
    # Without a code it is the client's library that speaks; 08 and 57P are the server's words for the same.
    return isinstance(error, OperationalError) and (error.sqlstate or "08")[:2] in ("08", "57")
