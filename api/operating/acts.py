"""What can be done to all jobs that a filter names: counted first, confirmed, then done; over REST and on the pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from msgspec.structs import replace

from api.problems import ProblemError
from api.services import Services
from jobstore.audit import Actor
from jobstore.job import JobState
from jobstore.live import WEBHOOKS_BELL
from jobstore.operating.jobs import LETTERS, UNFINISHED, Counted, JobFilter, Reached


class Act(Protocol):
    """An act of the store on many jobs."""

    @property
    def verb(self) -> Literal["cancel", "redrive"]:
        """What it does."""

    @property
    def done(self) -> str:
        """What its jobs were then, in words."""

    @property
    def states(self) -> tuple[JobState, ...]:
        """Of which jobs."""

    async def count(self, services: Services, where: JobFilter) -> Counted:
        """How many jobs it would reach."""

    async def some(self, services: Services, where: JobFilter, limit: int, by: Actor | None) -> Reached:
        """Do it to up to ``limit`` jobs, and ring. Raises ValueError on a cursor that it didn't give."""

    def until(self, where: JobFilter, at: datetime) -> JobFilter:
        """The filter without what came up for it since that time."""


@dataclass(frozen=True)
class _Cancel:
    verb: Literal["cancel"] = "cancel"
    done: str = "canceled"
    states: tuple[JobState, ...] = UNFINISHED

    async def count(self, services: Services, where: JobFilter) -> Counted:
        return await services.store.count_jobs(replace(where, cancel_requested=False))

    async def some(self, services: Services, where: JobFilter, limit: int, by: Actor | None) -> Reached:
        reached = await services.store.cancel_jobs(where, limit, by)
        services.ring([*reached.ring, *([WEBHOOKS_BELL] if reached.job_ids else [])])
        return reached

    def until(self, where: JobFilter, at: datetime) -> JobFilter:
        return replace(where, created_before=min(where.created_before or at, at))


@dataclass(frozen=True)
class _Redrive:
    verb: Literal["redrive"] = "redrive"
    done: str = "redriven"
    states: tuple[JobState, ...] = LETTERS

    async def count(self, services: Services, where: JobFilter) -> Counted:
        return await services.store.count_letters(where)

    async def some(self, services: Services, where: JobFilter, limit: int, by: Actor | None) -> Reached:
        reached = await services.store.redrive(where, limit, by)
        services.ring(reached.ring)
        return reached

    def until(self, where: JobFilter, at: datetime) -> JobFilter:
        return replace(where, finished_before=min(where.finished_before or at, at))


CANCEL: Act = _Cancel()
REDRIVE: Act = _Redrive()


def within(where: JobFilter, states: Sequence[JobState]) -> tuple[JobState, ...]:
    """Those of ``states`` that the filter lets through."""
    return tuple(state for state in states if not where.states or state in where.states)


def confirmed(counted: Counted, expected: int) -> None:
    """Raise a 409 where a filter names more jobs than whoever confirms has seen, or than could be counted."""
    if counted.at_least:
        detail = (
            f"counting stopped at {counted.count:,} jobs and more may match, which a number can't confirm: nothing was"
            " changed; narrow the filter, or say that all are meant (all: true)"
        )
        raise ProblemError(409, "count_too_far", detail, field="expected")
    if counted.count > expected:
        detail = (
            f"{jobs(counted.count)} match by now, and {expected:,} did when they were counted: nothing was changed;"
            " look at them again, then confirm"
        )
        raise ProblemError(409, "count_changed", detail, field="expected")


def jobs(count: int, *, or_more: bool = False) -> str:
    """So many jobs, in words; ``or_more`` where counting stopped before the end."""
    if or_more and not count:
        return "as many jobs as match"
    return f"{'at least ' if or_more else ''}{count:,} {'job' if count == 1 else 'jobs'}"
