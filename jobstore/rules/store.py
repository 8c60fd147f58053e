"""The methods of a job store that are nothing but rules in a transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar
from uuid import UUID

from jobstore.job import Job, JobError, Replay
from jobstore.ledger import NOTHING_SPENT, Spent
from jobstore.protocol import Finish, Settled
from jobstore.rules import requests, settle
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

    async def cancel(self, job_id: UUID) -> Settled:
        return await self.in_transaction(lambda rows: requests.cancel(rows, job_id))

    async def retry(self, job_id: UUID) -> Settled:
        return await self.in_transaction(lambda rows: requests.retry(rows, job_id))

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
