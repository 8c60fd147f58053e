"""Both stores side by side, and what of their answers is compared with the plain one's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from jobstore.job import Job
from jobstore.ledger import UsageRow
from jobstore.postgres.store import PostgresStore
from jobstore.protocol import JobStore
from jobstore.sqlite.store import SqliteStore
from tests.contract.emptying import empty_postgres, empty_sqlite
from tests.contract.plain.job import PlainJob, PlainUsage

T = TypeVar("T")

COMPARED = (
    "state", "cache", "leader", "reserved", "charged", "gpu_seconds", "attempts", "rescues", "cancel_requested",
    "error", "started", "worker", "pictures", "lane", "routes",
)  # fmt: skip


class Places:
    """Where the stores keep their rows, and how these are cleared between two lives."""

    def __init__(self, runner: asyncio.Runner, url: str, file: str) -> None:
        """Opens both stores."""
        self.runner, self.url, self.file = runner, url, file
        self.stores: tuple[JobStore, ...] = (PostgresStore(url, max_connections=2), SqliteStore(file))
        self.run(lambda store: store.open())

    def run(self, call: Callable[[JobStore], Awaitable[T]]) -> list[T]:
        """What the stores answer, in their order."""

        async def both() -> list[T | BaseException]:
            # All are waited for: a transaction that is left open would keep others out.
            return await asyncio.gather(*(call(store) for store in self.stores), return_exceptions=True)

        answers = []
        for answer in self.runner.run(both()):
            if isinstance(answer, BaseException):
                raise answer
            answers.append(answer)
        return answers

    def clear(self) -> None:
        """Leave nothing of the life before."""
        empty_postgres(self.url, keep_lanes=True)
        empty_sqlite(Path(self.file.removeprefix("sqlite:///")))


def fields(job: Job) -> dict[str, Any]:
    """What is compared of a real job."""
    return {
        "state": job.state,
        "cache": job.cache,
        "leader": job.leader_id,
        "reserved": job.reserved,
        "charged": job.charged,
        "gpu_seconds": job.gpu_seconds,
        "attempts": job.attempts,
        "rescues": job.rescues,
        "cancel_requested": job.cancel_requested,
        "error": job.error.code if job.error else None,
        "started": job.started_at is not None,
        "ended": job.finished_at is not None,
        "worker": job.worker_id,
        "pictures": job.pictures,
        "lane": job.lane,
        "routes": len(job.fallbacks),
    }


def plain_fields(job: PlainJob) -> dict[str, Any]:
    """The same of a plain one."""
    return {name: getattr(job, name) for name in COMPARED} | {"ended": job.ended is not None}


def row_fields(row: UsageRow) -> tuple[object, ...]:
    """What is compared of a row of the ledger."""
    money = (row.gpu_seconds, row.price, row.charged)
    return (row.attempt, row.token, row.outcome, row.error_code, row.cache, *money)


def plain_row_fields(row: PlainUsage, token: int | None) -> tuple[object, ...]:
    """The same of a plain one, with the token that the store has for it."""
    return (row.attempt, token, row.outcome, row.error_code, row.cache, row.gpu_seconds, row.price, row.charged)
