"""What operators' routes take and give. Field names are the API; docs/operators.md explains them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

from api.schemas import DimensionName, DimensionValue, LaneView
from jobstore.job import CacheOutcome
from safelight.config.settings import Lane, Name

UnfinishedState = Literal["scheduled", "queued", "running"]
LetterState = Literal["dead", "failed"]
Instant = Annotated[datetime, Meta(tz=True)]
ErrorCode = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,63}\Z")]
SearchText = Annotated[str, Meta(min_length=1, max_length=200)]
Expected = Annotated[int, Meta(ge=0, le=10_000)]


class JobCount(Struct, frozen=True, kw_only=True):
    """How many jobs a filter names: ``at_least`` so many where counting stopped before the end.

    ``as_of`` is the store's clock: sent as ``created_before``, it keeps out what came later.
    """

    object: Literal["count"] = "count"
    count: int
    at_least: bool
    as_of: datetime


class ManyRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs to act on: those for which everything named holds.

    ``dry_run`` counts and changes nothing. With ``expected``, nothing is changed where the filter names more jobs than
    that, or more than can be counted: with ``all`` every job that it names is meant, however many. ``limit`` bounds how
    many jobs one call changes.
    """

    model: Name | None = None
    lane: Lane | None = None
    key: UUID | None = None
    worker: UUID | None = None
    host: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    dimensions: Annotated[dict[DimensionName, DimensionValue], Meta(max_length=16)] = {}
    text: SearchText | None = None
    error_code: ErrorCode | None = None
    created_after: Instant | None = None
    created_before: Instant | None = None
    dry_run: bool = False
    expected: Expected | None = None
    all: bool = False
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1000
    cursor: Annotated[str, Meta(pattern=r"^[!-~]{1,500}\Z")] | None = None


class CancelRequest(ManyRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which unfinished jobs to cancel, newest first. One thing at least must be named."""

    states: Annotated[tuple[UnfinishedState, ...], Meta(min_length=1, max_length=3)] | None = None


class RedriveRequest(ManyRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which failed or dead jobs to queue anew, first ended first; all of them where nothing is named."""

    states: Annotated[tuple[LetterState, ...], Meta(min_length=1)] = ("dead", "failed")
    finished_after: Instant | None = None
    finished_before: Instant | None = None


class ManyReached(Struct, frozen=True, kw_only=True):
    """The jobs that were changed, or with ``dry_run`` would be: then ``count`` is that of the filter, without ids.

    ``at_least`` says that counting stopped before the end. ``next_cursor`` goes on with what this call left out: send
    the same again with it as ``cursor``.
    """

    dry_run: bool
    count: int
    at_least: bool
    as_of: datetime | None
    job_ids: tuple[UUID, ...]
    next_cursor: str | None


class JobsCanceled(ManyReached, frozen=True, kw_only=True):
    """What was canceled, or would be."""

    object: Literal["jobs.canceled"] = "jobs.canceled"


class JobsRedriven(ManyReached, frozen=True, kw_only=True):
    """What was queued anew, or would be; ``more`` says that there is a ``next_cursor``."""

    object: Literal["jobs.redriven"] = "jobs.redriven"
    more: bool


class AttemptView(Struct, frozen=True, kw_only=True):
    """One try to render a job. Workers, hosts and mates of other keys are told to admins alone.

    ``batch_rows`` is how many pictures shared its steps on the average, its own among them, and ``mates`` up to 16 jobs
    that did (of the newest attempt).
    """

    number: int
    outcome: str
    worker: UUID | None
    host: str | None
    device: str
    lane: str
    model: str
    started_at: datetime | None
    ended_at: datetime | None
    duration_s: float | None
    error_code: str | None
    cache: CacheOutcome
    gpu_seconds: str
    charged: str
    currency: str
    batch_rows: float | None
    mates: tuple[UUID, ...]


class AttemptList(Struct, frozen=True, kw_only=True):
    """A job's attempts in order; the one that runs, last."""

    object: Literal["list"] = "list"
    data: tuple[AttemptView, ...]


class WorkerView(Struct, frozen=True, kw_only=True):
    """A worker process. Memory is its device's, in bytes; ``models`` are those that are loaded.

    ``occupancy`` is the share of the last minute that its device was busy. ``state`` is ``serving``, ``draining``,
    ``drained`` or ``silent``; ``held`` counts the jobs under its leases.
    """

    id: UUID
    object: Literal["worker"] = "worker"
    state: Literal["serving", "draining", "drained", "silent"]
    alive: bool
    host: str
    pid: int
    version: str
    device: str
    memory_used: int | None
    memory_total: int | None
    models: tuple[str, ...]
    lanes: tuple[str, ...]
    slots: int
    held: int
    occupancy: float | None
    started_at: datetime
    seen_at: datetime
    silent_s: float
    drain_asked_at: datetime | None


class WorkerList(Struct, frozen=True, kw_only=True):
    """The workers that are not forgotten yet, oldest first."""

    object: Literal["list"] = "list"
    data: tuple[WorkerView, ...]


class MinuteView(Struct, frozen=True, kw_only=True):
    """What ended in a minute."""

    at: datetime
    succeeded: int
    failed: int
    canceled: int


class HourView(Struct, frozen=True, kw_only=True):
    """The last hour. Shares are from 0 to 1, null where nothing ended."""

    finished: int
    succeeded: int
    failed: int
    canceled: int
    success_rate: float | None
    cache_share: float | None
    minutes: tuple[MinuteView, ...]


class LettersView(Struct, frozen=True, kw_only=True):
    """Jobs that ended failed or dead in the last 24 hours, each counted up to 10,000."""

    failed: int
    dead: int
    newest_at: datetime | None


class DevicesView(Struct, frozen=True, kw_only=True):
    """Live workers, and the share of their time in the last minute that their devices were busy."""

    alive: int
    silent: int
    draining: int
    slots: int
    held: int
    use: float | None


class TodayCost(Struct, frozen=True, kw_only=True):
    """What was charged today, as a decimal string."""

    currency: str
    charged: str
    gpu_seconds: str


class TodayView(Struct, frozen=True, kw_only=True):
    """Money since midnight of ``zone``."""

    zone: str
    since: datetime
    costs: tuple[TodayCost, ...]


class Problem(Struct, frozen=True, kw_only=True):
    """Something that is wrong now. ``code`` is stable; ``advice`` says what to do, ``link`` where (under /admin)."""

    severity: Literal["critical", "warning", "info"]
    code: str
    what: str
    advice: str
    link: str | None


class OverviewView(Struct, frozen=True, kw_only=True):
    """How everything stands. ``oldest_s`` is the age of the job that waits longest, null where none does."""

    object: Literal["overview"] = "overview"
    at: datetime
    scheduled: int
    queued: int
    running: int
    oldest_s: float | None
    lanes: tuple[LaneView, ...]
    hour: HourView
    letters: LettersView
    devices: DevicesView
    today: TodayView
    problems: tuple[Problem, ...]
