"""The methods of a job store that are nothing but rules in a transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar
from uuid import UUID

from msgspec import structs

from jobstore.audit import Actor, AuditNote
from jobstore.job import Job, JobError, Replay
from jobstore.ledger import NOTHING_SPENT, Spent
from jobstore.operating.jobs import UNFINISHED, CanceledMany, JobFilter, RedriveFilter, Redriven
from jobstore.protocol import Finish, Settled, Swept
from jobstore.rules import reaper, requests, reroute, settle
from jobstore.rules.rows import Row, Rows

T = TypeVar("T")
R = TypeVar("R", bound=Rows)

_AT_ONCE = 100
_PAGING = ("limit", "cursor", "cancel_requested")


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

    async def redrive(self, where: RedriveFilter, limit: int = 1000, by: Actor | None = None) -> Redriven:
        ids = await self.in_transaction(lambda rows: rows.find_letters(where, limit + 1))
        note = None if by is None else AuditNote(by=by, action="jobs.redriven", target="jobs", details=_told(where))
        # In small transactions: a job that can't be locked soon holds up few others.
        parts = [await self._redrive(some, note) for some in _parts(ids[:limit])]
        return Redriven(
            job_ids=tuple(job_id for part in parts for job_id in part.job_ids),
            ring=tuple(lane for part in parts for lane in part.ring),
            more=len(ids) > limit,
        )

    async def _redrive(self, ids: Sequence[UUID], note: AuditNote | None) -> Redriven:
        async def work(rows: R) -> Redriven:
            redriven = await requests.redrive(rows, ids)
            await _write_down(rows, note, redriven.job_ids)
            return redriven

        return await self.in_transaction(work)

    async def cancel_jobs(self, where: JobFilter, limit: int = 1000, by: Actor | None = None) -> CanceledMany:
        where = structs.replace(where, states=where.states or UNFINISHED, cancel_requested=False)
        ids, next_cursor = await self.in_transaction(lambda rows: rows.find_jobs(where, limit))
        note = None if by is None else AuditNote(by=by, action="jobs.canceled", target="jobs", details=_told(where))
        parts = [await self._cancel_all(some, where, note) for some in _parts(ids)]
        return CanceledMany(
            job_ids=tuple(job_id for part in parts for job_id in part.job_ids),
            ring=tuple(lane for part in parts for lane in part.ring),
            next_cursor=next_cursor,
        )

    async def _cancel_all(self, ids: Sequence[UUID], where: JobFilter, note: AuditNote | None) -> CanceledMany:
        async def work(rows: R) -> CanceledMany:
            canceled = await requests.cancel_all(rows, ids, where)
            await _write_down(rows, note, canceled.job_ids)
            return canceled

        return await self.in_transaction(work)

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

    async def cancel(self, job_id: UUID) -> Settled:
        return await self.in_transaction(lambda rows: requests.cancel(rows, job_id))

    async def retry(self, job_id: UUID, by: Actor | None = None) -> Settled:
        note = None if by is None else AuditNote(by=by, action="jobs.redriven", target=str(job_id))

        async def work(rows: R) -> Settled:
            settled = await requests.retry(rows, job_id)
            await _write_down(rows, note, (job_id,))
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


def _parts(ids: Sequence[UUID]) -> list[Sequence[UUID]]:
    return [ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE)]


def _told(where: JobFilter | RedriveFilter) -> dict[str, Any]:
    """The filter as the audit log tells it: what it names."""
    named = {name: value for name, value in structs.asdict(where).items() if value not in (None, (), {})}
    return {"filter": {name: value for name, value in named.items() if name not in _PAGING}}


async def _write_down(rows: Rows, note: AuditNote | None, ids: Sequence[UUID]) -> None:
    """Note what was done to these jobs, in their own transaction."""
    if note is not None and ids:
        await rows.note(structs.replace(note, details={**note.details, "count": len(ids), "job_ids": list(ids)}))
