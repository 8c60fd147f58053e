"""Which jobs are meant, and what came of looking for them or acting on them."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Literal
from uuid import UUID

from msgspec import Struct, field

from jobstore.job import CacheOutcome, Job, JobState
from jobstore.ledger import Outcome

LOOKED_AT = 20_000
"""How many jobs one search looks at, at most; where it stops, its cursor goes on."""
MOST_COUNTED = 10_000
"""How far a count goes."""
MATES_KEPT = 16
"""How many of the jobs that shared its batches are written down with an attempt."""

UNFINISHED = tuple(state for state in JobState if not state.terminal)
"""What a cancel reaches."""
LETTERS = (JobState.DEAD, JobState.FAILED)
"""What a redrive queues anew."""


class JobFilter(Struct, frozen=True, kw_only=True):
    """Which jobs: those for which everything that is named holds. ``cursor`` is what the page before gave.

    ``states`` are all where none is named. ``worker_id`` and ``host`` name a worker that has the job or had it; a host
    is known for a day after its worker left. ``text`` is a part of the prompt, in small letters or large ones, or a
    job's whole id.
    """

    states: tuple[JobState, ...] = ()
    model: str | None = None
    lane: str | None = None
    key_id: UUID | None = None
    worker_id: UUID | None = None
    host: str | None = None
    dimensions: dict[str, str] = {}
    text: str | None = None
    error_code: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    finished_after: datetime | None = None
    finished_before: datetime | None = None
    cancel_requested: bool | None = None
    limit: int = 50
    cursor: str | None = None


class JobPage(Struct, frozen=True, kw_only=True):
    """Jobs, newest first, and the cursor of the next page (None on the last).

    ``stopped_early`` says that the search had looked at as many jobs as it may before the page was full: the cursor
    goes on from there.
    """

    jobs: tuple[Job, ...]
    next_cursor: str | None = None
    stopped_early: bool = False


class Counted(Struct, frozen=True, kw_only=True):
    """How many jobs a filter names; ``at_least`` so many, where counting stopped before the end.

    ``as_of`` is the store's clock: as ``created_before`` it keeps out what came later.
    """

    count: int
    at_least: bool
    as_of: datetime


class Reached(Struct, frozen=True, kw_only=True):
    """The jobs that were canceled, or are to end at their worker's next step, or were queued anew.

    ``ring`` has one lane for each bell to ring. ``next_cursor`` goes on with what the limit, or one search, left out;
    None where nothing is left.
    """

    job_ids: tuple[UUID, ...] = ()
    ring: tuple[str, ...] = ()
    next_cursor: str | None = None


class Attempt(Struct, frozen=True, kw_only=True):
    """One try to render a job, or the answer from the cache that stood for one (``worker_id`` None then).

    ``ended_at`` is None while it runs. ``host`` is None once the worker is forgotten, ``started_at`` once the job's
    events are. ``batch_rows`` is how many pictures, this job's own among them, shared its steps on the average; None
    where the worker could not tell. ``mates`` are up to 16 jobs that shared steps; they are kept of the newest attempt.
    """

    number: int
    outcome: Outcome | Literal["running"]
    worker_id: UUID | None
    host: str | None
    device: str
    lane: str
    model: str
    started_at: datetime | None
    ended_at: datetime | None
    error_code: str | None
    cache: CacheOutcome
    gpu_seconds: Decimal
    charged: Decimal
    currency: str
    batch_rows: float | None = None
    mates: tuple[UUID, ...] = field(default_factory=tuple)
