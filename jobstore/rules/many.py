"""Acting on all jobs that a filter names: found first, then canceled or queued anew, in small transactions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar
from uuid import UUID

from msgspec import structs

from jobstore.audit import Actor, AuditNote
from jobstore.operating.jobs import LETTERS, UNFINISHED, JobFilter, Reached
from jobstore.rules import requests
from jobstore.rules.rows import Rows

T = TypeVar("T")
R = TypeVar("R", bound=Rows)

Found = tuple[list[UUID], str | None]
"""Ids, and the cursor of what is left to look at."""

_AT_ONCE = 100  # a job that can't be locked soon holds up few others
_PAGING = ("limit", "cursor", "cancel_requested")


class ActingStore(ABC, Generic[R]):
    """What any store does alike to many jobs. ``OperatorStore`` says what each method promises."""

    @abstractmethod
    async def in_transaction(self, work: Callable[[R], Awaitable[T]]) -> T:
        """The result of ``work`` in a transaction of its own, carried to its end even if the caller is canceled."""

    @abstractmethod
    async def find_unfinished(self, where: JobFilter, limit: int) -> Found:
        """The jobs that a cancel may reach, newest first. Raises StoreBusyError where a search may not be made now."""

    @abstractmethod
    async def find_letters(self, where: JobFilter, limit: int) -> Found:
        """The jobs that a redrive may reach, those that ended first before others. Raises StoreBusyError likewise."""

    async def cancel_jobs(self, where: JobFilter, limit: int = 1000, by: Actor | None = None) -> Reached:
        where = structs.replace(where, states=where.states or UNFINISHED, cancel_requested=False)
        found = await self.find_unfinished(where, limit)
        return await self._reach(found, where, requests.cancel_all, _note("jobs.canceled", where, by))

    async def redrive(self, where: JobFilter, limit: int = 1000, by: Actor | None = None) -> Reached:
        states = tuple(state for state in LETTERS if not where.states or state in where.states)
        if not states:
            return Reached()
        where = structs.replace(where, states=states)
        found = await self.find_letters(where, limit)
        return await self._reach(found, where, requests.redrive, _note("jobs.redriven", where, by))

    async def _reach(
        self,
        found: Found,
        where: JobFilter,
        act: Callable[[R, Sequence[UUID], JobFilter], Awaitable[Reached]],
        note: AuditNote | None,
    ) -> Reached:
        """Act on what was found, some jobs a transaction."""

        async def some(ids: Sequence[UUID]) -> Reached:
            async def work(rows: R) -> Reached:
                reached = await act(rows, ids, where)
                await write_down(rows, note, reached.job_ids)
                return reached

            return await self.in_transaction(work)

        ids, next_cursor = found
        parts = [await some(ids[start : start + _AT_ONCE]) for start in range(0, len(ids), _AT_ONCE)]
        return Reached(
            job_ids=tuple(job_id for part in parts for job_id in part.job_ids),
            ring=tuple(lane for part in parts for lane in part.ring),
            next_cursor=next_cursor,
        )


async def write_down(rows: Rows, note: AuditNote | None, ids: Sequence[UUID]) -> None:
    """Note what was done to these jobs, in their own transaction."""
    if note is not None and ids:
        await rows.note(structs.replace(note, details={**note.details, "count": len(ids), "job_ids": list(ids)}))


def _note(action: str, where: JobFilter, by: Actor | None) -> AuditNote | None:
    return None if by is None else AuditNote(by=by, action=action, target="jobs", details=_told(where))


def _told(where: JobFilter) -> dict[str, Any]:
    """The filter as the audit log tells it: what it names."""
    named = {name: value for name, value in structs.asdict(where).items() if value not in (None, (), {})}
    return {"filter": {name: value for name, value in named.items() if name not in _PAGING}}
