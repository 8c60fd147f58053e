"""A job's attempts, put together from what the store keeps of them: the ledger, the job's events, and the job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from jobstore.job import CacheOutcome, JobEvent, JobState
from jobstore.ledger import UsageRow
from jobstore.operating.jobs import Attempt

Row = dict[str, Any]


def attempts_of(
    job: Row, usage: Sequence[UsageRow], events: Sequence[JobEvent], hosts: dict[UUID, Row]
) -> tuple[Attempt, ...]:
    """Attempts in order. ``hosts`` are rows of workers that are still known, by their ids."""
    starts = [event.at for event in events if event.data.get("state") == JobState.RUNNING]
    newest = max((index for index, row in enumerate(usage) if row.outcome == "succeeded"), default=None)
    mates = tuple(UUID(str(mate)) for mate in job["batch_mates"] or ())
    ended = [
        _ended(row, _last(starts, row.at), hosts, mates if index == newest else ()) for index, row in enumerate(usage)
    ]
    return (*ended, _under_way(job, starts, hosts)) if job["worker_id"] is not None else tuple(ended)


def _ended(row: UsageRow, started_at: datetime | None, hosts: dict[UUID, Row], mates: tuple[UUID, ...]) -> Attempt:
    return Attempt(
        number=row.attempt,
        outcome=row.outcome,
        worker_id=row.worker_id,
        host=_of(hosts, row.worker_id, "host"),
        device=row.device,
        lane=row.lane,
        model=row.model,
        started_at=row.at if row.token is None else started_at,
        ended_at=row.at,
        error_code=row.error_code,
        cache=row.cache,
        gpu_seconds=row.gpu_seconds,
        charged=row.charged,
        currency=row.currency,
        batch_rows=row.batch_rows,
        mates=mates,
    )


def _under_way(job: Row, starts: Sequence[datetime], hosts: dict[UUID, Row]) -> Attempt:
    return Attempt(
        number=job["attempts"],
        outcome="running",
        worker_id=job["worker_id"],
        host=_of(hosts, job["worker_id"], "host"),
        device=_of(hosts, job["worker_id"], "device") or "",
        lane=job["lane"],
        model=job["model"],
        started_at=starts[-1] if starts else job["started_at"],
        ended_at=None,
        error_code=None,
        cache=CacheOutcome(job["cache"]),
        gpu_seconds=Decimal(0),
        charged=Decimal(0),
        currency=job["currency"],
    )


def _last(starts: Sequence[datetime], ended_at: datetime) -> datetime | None:
    """The start of the attempt that ended then."""
    return max((at for at in starts if at <= ended_at), default=None)


def _of(hosts: dict[UUID, Row], worker_id: UUID | None, name: str) -> str | None:
    known = None if worker_id is None else hosts.get(worker_id)
    return None if known is None else str(known[name])
