"""The methods of a job store that are nothing but rules in a transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar
from uuid import UUID

from jobstore.audit import Actor, AuditNote
from jobstore.job import Job, JobError, Replay
from jobstore.ledger import NOTHING_SPENT, Spent
from jobstore.protocol import Finish, Settled, Swept
from jobstore.rules import reaper, requests, reroute, settle
from jobstore.rules.many import write_down
from jobstore.rules.rows import Row, Rows

T = TypeVar("T")
R = TypeVar("R", bound=Rows)


class RuledStore(ABC, Generic[R]):
    """What any store does alike. ``JobStore`` says what each method promises."""

    @abstractmethod
    async def in_transaction(self, work: Callable[[R], Awaitable[T]]) -> T:
        """The result of ``work`` in a transaction of its own, carried to its end even if the caller is canceled."""

    @abstractmethod
    async def told(self, row: Row) -> Job:
        """The job of a row, with its pictures and its place in the queue."""

    async def find_replay(self, key_id: UUID | None, replay: Replay) -> Job | None:
        row = await self.in_transaction(lambda rows: requests.find_replay(rows, key_id, replay))
        return None if row is None else await self.told(row)

    async def sweep(self, *, lease_s: float, ring_again_s: float, max_rescues: int, limit: int = 100) -> Swept:
        steps: tuple[Callable[[R], Awaitable[Swept]], ...] = (
            lambda rows: reaper.take_back(rows, lease_s, max_rescues, limit),
            lambda rows: reaper.stage(rows, limit),
            lambda rows: reroute.leave(rows, limit),
            lambda rows: reaper.ring_again(rows, ring_again_s, limit),
        )
        # A transaction a step: a step that fails takes nothing back of the others.
        parts = [await self.in_transaction(step) for step in steps]
        late = await self.in_transaction(lambda rows: rows.find_late(limit))
        parts += [await self._expire(job_id) for job_id in late]
        await self.in_transaction(lambda rows: rows.count_tenants())
        return reaper.together(parts)

    async def _expire(self, job_id: UUID) -> Swept:
        return await self.in_transaction(lambda rows: reaper.expire(rows, job_id))

    async def cancel(self, job_id: UUID, by: Actor | None = None) -> Settled:
        async def work(rows: R) -> Settled:
            if by is not None and await requests.would_cancel(rows, job_id):
                await write_down(rows, AuditNote(by=by, action="jobs.canceled", target=str(job_id)), (job_id,))
            return await requests.cancel(rows, job_id)

        return await self.in_transaction(work)

    async def retry(self, job_id: UUID, by: Actor | None = None) -> Settled:
        note = None if by is None else AuditNote(by=by, action="jobs.redriven", target=str(job_id))

        async def work(rows: R) -> Settled:
            settled = await requests.retry(rows, job_id)
            await write_down(rows, note, (job_id,))
            return settled

        return await self.in_transaction(work)

    async def finish(self, token: int, result: Finish) -> Settled | None:
        return await self.in_transaction(lambda rows: settle.finish(rows, token, result))

    async def fail(
        self, token: int, error: JobError, retry_in_s: float | None = None, spent: Spent = NOTHING_SPENT
    ) -> Settled | None:
        return await self.in_transaction(lambda rows: settle.fail(rows, token, error, retry_in_s, spent))

    async def canceled(self, token: int, spent: Spent = NOTHING_SPENT) -> Settled | None:
        return await self.in_transaction(lambda rows: settle.canceled(rows, token, spent))

    async def release(self, token: int, spent: Spent = NOTHING_SPENT) -> Settled | None:
        return await self.in_transaction(lambda rows: settle.release(rows, token, spent))
