"""The rows that the rules work on, and what a store must be able to do with them inside one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

import msgspec

from jobstore.audit import AuditNote
from jobstore.job import CacheOutcome, Job, JobError, JobRequest, JobState, JobWebhook, NewJob, Picture, Route
from jobstore.ledger import UsageRow
from jobstore.operating.jobs import JobFilter
from jobstore.rules.quotas import QuotaRows

Row = dict[str, Any]
"""A row by column: UUID, Decimal, aware datetime, and what is JSON in the database as Python's own."""

NOBODY = "00000000-0000-0000-0000-000000000000"
"""The tenant of jobs without an API key, and the scope of their idempotency keys."""


class _Now:
    """The store's clock at the moment of the write."""


NOW = _Now()


@dataclass(frozen=True, slots=True)
class In:
    """So many seconds after the moment of the write, by the store's clock."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Place:
    """A job's place in its lane, in virtual seconds; docs/fairness.md says how it is found."""

    start_tag: float
    rank_at: float


@dataclass(frozen=True, slots=True)
class Booking:
    """What changes in an API key's balance."""

    key_id: UUID
    currency: str
    reserved: Decimal
    charged: Decimal


def summed(bookings: Iterable[Booking]) -> list[Booking]:
    """One booking for each balance, in the order of their keys."""
    sums: dict[tuple[UUID, str], Booking] = {}
    for booking in bookings:
        place = (booking.key_id, booking.currency)
        known = sums.get(place, Booking(*place, Decimal(0), Decimal(0)))
        sums[place] = Booking(*place, known.reserved + booking.reserved, known.charged + booking.charged)
    return [sums[place] for place in sorted(sums)]


Change = tuple[Mapping[str, Any], Sequence[UUID]]
"""Columns, and the jobs that get them."""


class Rows(QuotaRows, Protocol):
    """One transaction of a store. Whatever is read here is locked until the transaction ends.

    Idempotency keys are locked before quotas, those before jobs, and a job that joined another after its leader: the
    order that keeps transactions from blocking each other for good.
    """

    async def lock_job(self, job_id: UUID) -> Row | None:
        """The job's row, after its leader's, wherever it is kept."""

    async def lock_jobs(self, ids: Sequence[UUID]) -> list[Row]:
        """The rows of those of these jobs that there are, each locked as ``lock_job`` does it; in the order of ids."""

    async def read_job(self, job_id: UUID) -> Row | None:
        """The row of a job that this transaction has locked, or that need not be."""

    async def whose(self, ids: Sequence[UUID]) -> list[Row]:
        """``key_id``, ``team`` and ``customer`` of these jobs, which never change."""

    async def lock_held(self, token: int) -> Row | None:
        """The job that is held under ``token``."""

    async def lock_followers(self, leader_id: UUID) -> list[Row]:
        """The unfinished jobs that joined, oldest first."""

    async def lock_in_flight(self, fingerprint: str) -> Row | None:
        """The job that others of this fingerprint may join."""

    async def restore(self, ids: Sequence[UUID]) -> None:
        """Bring those of these finished jobs back that had been put away."""

    async def place(self, job: Row) -> Place:
        """A place at the end of what the job's tenant has in the lane now, moved by its priority as before."""

    async def add_job(self, new: NewJob, columns: Mapping[str, Any]) -> Row | None:
        """Insert a job with these columns beside its own; None where its fingerprint is in flight already.

        ``state`` among the columns is where it stands unless it waits for a ``start_at`` ahead: then ``scheduled``.
        """

    async def change(self, changes: Sequence[Change]) -> list[Row]:
        """Set columns (``NOW`` and ``In`` stand for instants); the new rows."""

    async def tell(self, events: Sequence[tuple[UUID, str, dict[str, Any]]]) -> None:
        """Write durable events: job, kind, data."""

    async def add_usage(self, rows: Sequence[Row]) -> None:
        """Append to the ledger."""

    async def add_pictures(self, ids: Sequence[UUID], pictures: Sequence[Picture]) -> None:
        """Give every one of these jobs these pictures."""

    async def pictures_of(self, ids: Sequence[UUID]) -> dict[UUID, list[Picture]]:
        """The pictures of these jobs, in order."""

    async def remember(self, row: Row, pictures: Sequence[Picture]) -> None:
        """Write the cache entry of a job."""

    async def device_of(self, worker_id: UUID | None) -> str:
        """The device of a worker; empty if it is not known any more."""

    async def models_of(self, key_id: UUID) -> tuple[str, ...] | None:
        """The models that an API key may use; None for all, and for a key that isn't known."""

    async def replay_of(self, key_id: UUID | None, key: str) -> Row | None:
        """What the store remembers of an idempotency key, if it is not too old: ``body_sha256`` and ``job_id``."""

    async def add_replay(self, new: NewJob) -> bool:
        """Remember the job under its idempotency key; False where the key is taken (after waiting for who takes it)."""

    async def lock_lost(self, lease_s: float, limit: int) -> list[Row]:
        """Jobs whose worker has been silent for over ``lease_s``; those that others hold locked are left to them."""

    async def lock_due(self, limit: int) -> list[Row]:
        """Scheduled jobs whose time has come, but for those that others hold locked."""

    async def find_late(self, limit: int) -> list[UUID]:
        """Jobs whose deadline, or whose time to start, has passed."""

    async def find_jobs(self, where: JobFilter, limit: int) -> tuple[list[UUID], str | None]:
        """The jobs that the filter names, newest first, and the cursor of what is left to look at."""

    async def note(self, note: AuditNote) -> None:
        """Write an audit entry."""

    async def ring_again(self, after_s: float, limit: int) -> list[str]:
        """Note that queued jobs without a bell for ``after_s`` have one now; a lane for each. Not of paused lanes."""

    async def expected_s(self, request: JobRequest) -> float:
        """Seconds of device time that a request is expected to take, as an insert reckons it."""

    async def open_lanes(self) -> frozenset[str]:
        """The lanes that a live worker serves and that aren't paused."""

    async def lock_stuck(self, served: Sequence[str], limit: int) -> list[Row]:
        """Queued jobs with a route to one of these lanes that wait as long as their next route says, oldest first.

        Not of paused lanes, and not those that others hold locked.
        """

    async def count_tenants(self) -> None:
        """Note how many tenants have queued jobs in each lane."""

    def book(self, bookings: Sequence[Booking]) -> None:
        """Change balances at the end of the transaction, in an order that all transactions keep."""


_COPIED = (
    "id", "lane", "batch_key", "fingerprint", "seedless_fingerprint", "leader_id", "key_id", "dimensions", "currency",
    "attempts", "rescues", "max_attempts", "cancel_requested", "worker_id", "expected_s",
    "created_at", "started_at", "finished_at", "start_at", "start_by", "deadline_at", "team", "customer",
    "traceparent",
)  # fmt: skip
_AMOUNTS = ("reserved", "charged", "gpu_seconds")


def to_job(
    row: Mapping[str, Any], pictures: Sequence[Picture] = (), standing: tuple[int, float | None] | None = None
) -> Job:
    """The job of a row; ``standing`` is its place in the queue and the seconds until it is expected to start."""
    position, eta_s = standing or (None, None)
    amounts: dict[str, Any] = {name: trimmed(row[name]) for name in _AMOUNTS}
    return Job(
        **{name: row[name] for name in _COPIED},
        **amounts,
        state=JobState(row["state"]),
        request=msgspec.convert(row["request"], JobRequest),
        cache=CacheOutcome(row["cache"]),
        fallbacks=msgspec.convert(row["fallbacks"], tuple[Route, ...]) if row["fallbacks"] else (),
        webhook=None if row["webhook"] is None else msgspec.convert(row["webhook"], JobWebhook),
        error=None if row["error"] is None else msgspec.convert(row["error"], JobError),
        warnings=tuple(row["warnings"]),
        pictures=tuple(pictures),
        queue_position=position,
        eta_s=eta_s,
    )


def to_usage(row: Row) -> UsageRow:
    """The ledger's row of a row."""
    amounts = {name: trimmed(row[name]) for name in ("gpu_seconds", "price", "charged")}
    return msgspec.convert(row | amounts, UsageRow)


def trimmed(amount: Decimal) -> Decimal:
    """The same number without the zeros of its column's scale, and without an exponent."""
    return amount.quantize(Decimal(1)) if amount == amount.to_integral_value() else amount.normalize()


async def job_of(rows: Rows, row: Row) -> Job:
    """The job of a row, with its pictures."""
    found = await rows.pictures_of([row["id"]])
    return to_job(row, found.get(row["id"], ()))
