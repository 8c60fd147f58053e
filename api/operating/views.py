"""From the store's structs to those of the wire."""

from __future__ import annotations

from api.operating.schemas import AttemptView, WorkerView
from api.views import plain_amount
from jobstore.operating.jobs import Attempt
from jobstore.operating.workers import WorkerReport, WorkerStatus


def worker_view(status: WorkerStatus) -> WorkerView:
    """A worker as operators see it."""
    report = status.report or WorkerReport()
    return WorkerView(
        id=status.id,
        state=status.state,
        alive=status.alive,
        host=status.host,
        pid=status.pid,
        version=report.version,
        device=status.device,
        memory_used=report.memory_used,
        memory_total=report.memory_total,
        models=report.models,
        lanes=status.lanes,
        slots=report.slots,
        held=status.held,
        occupancy=report.occupancy if status.alive else None,
        started_at=status.started_at,
        seen_at=status.seen_at,
        silent_s=round(status.silent_s, 1),
        drain_asked_at=status.drain_asked_at,
    )


def attempt_view(attempt: Attempt, *, everything: bool) -> AttemptView:
    """An attempt; workers and the jobs of others are told only with ``everything``."""
    ended, started = attempt.ended_at, attempt.started_at
    return AttemptView(
        number=attempt.number,
        outcome=attempt.outcome,
        worker=attempt.worker_id if everything else None,
        host=attempt.host if everything else None,
        device=attempt.device,
        lane=attempt.lane,
        model=attempt.model,
        started_at=started,
        ended_at=ended,
        duration_s=None if ended is None or started is None else round((ended - started).total_seconds(), 3),
        error_code=attempt.error_code,
        cache=attempt.cache,
        gpu_seconds=plain_amount(attempt.gpu_seconds),
        charged=plain_amount(attempt.charged),
        currency=attempt.currency,
        batch_rows=None if attempt.batch_rows is None else round(attempt.batch_rows, 2),
        mates=attempt.mates if everything else (),
    )
