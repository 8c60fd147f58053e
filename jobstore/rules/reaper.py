"""What time does to jobs: leases of silent workers run out, starts fall due, deadlines pass."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from jobstore.job import JobError, JobState
from jobstore.protocol import Lease, Swept
from jobstore.rules.moves import Columns, end_now, followers_of, give_back, move
from jobstore.rules.reroute import send_on
from jobstore.rules.rows import Place, Row, Rows, to_job
from jobstore.rules.settle import lose, stop

LATE_GRACE_S = 3.0
"""A worker ends a late render itself, between steps; it doesn't know the deadline of a job that took over a lease."""

_LATE = JobError(code="deadline_exceeded", message="the deadline passed before the job was rendered")
_NOT_STARTED = JobError(code="deadline_exceeded", message="the job was not started within its start_deadline_s")
_LOST = JobError(code="worker_lost", message="the worker died or fell silent while it rendered this, too often")


async def take_back(rows: Rows, lease_s: float, max_rescues: int, limit: int) -> Swept:
    """Take leases away from silent workers."""
    done: Counter[str] = Counter()
    ring: list[str] = []
    for job in await rows.lock_lost(lease_s, limit):
        await lose(rows, job)
        fate, rung = await _fate(rows, job, max_rescues)
        done[fate] += 1
        ring += rung
    return Swept(
        ring=tuple(ring),
        fallbacks=(_LOST.code,) * done["sent on"],
        rescued=done["rescued"],
        dead=done["dead"],
        canceled=done["canceled"],
    )


async def _fate(rows: Rows, job: Row, max_rescues: int) -> tuple[str, tuple[str, ...]]:
    if job["cancel_requested"]:
        return "canceled", await stop(rows, job)
    if job["rescues"] + 1 >= max_rescues:
        jobs, ring = await send_on(rows, [job, *await followers_of(rows, job)], _LOST.code, _LOST)
        await move(
            rows,
            jobs,
            JobState.DEAD,
            error=_LOST,
            also=lambda row: {"rescues": row["rescues"] + 1},
            reason="worker lost",
        )
        return ("dead" if job in jobs else "sent on"), ring
    await give_back(rows, job, reason="worker lost", rescues=1)
    return "rescued", (job["lane"],)


async def stage(rows: Rows, limit: int) -> Swept:
    """Queue scheduled jobs whose time has come."""
    due = await rows.lock_due(limit)
    for job in due:
        # A job that was put off is tried again in its old place. One that comes in now stands behind what its key has.
        place = await rows.place(job) if job["started_at"] is None else None
        jobs = [job, *await followers_of(rows, job)]
        await move(rows, jobs, JobState.QUEUED, also=partial(_placed, place), reason="due")
    return Swept(ring=tuple(job["lane"] for job in due), staged=len(due))


def _placed(place: Place | None, job: Row) -> Columns:
    return dataclasses.asdict(place) if place is not None and job["leader_id"] is None else {}


async def ring_again(rows: Rows, after_s: float, limit: int) -> Swept:
    """Bells for queued jobs that nobody rang for in a while."""
    return Swept(ring=tuple(await rows.ring_again(after_s, limit)))


async def expire(rows: Rows, job_id: UUID) -> Swept:
    """Fail a job whose deadline passed: one that waits, or that its worker did not end in time.

    One a transaction: a job that joined is locked after its leader, and several of them can't all be.
    """
    job = await rows.lock_job(job_id)
    error = None if job is None else _lateness(job, await rows.now())
    if job is None or error is None:
        return Swept()
    if job["lease_token"] is not None:
        await lose(rows, job, error.code)
    return Swept(ring=await end_now(rows, job, JobState.FAILED, error=error), expired=1)


def _lateness(job: Row, now: datetime) -> JobError | None:
    """What a job is late for; None where it is not, or not any more."""
    if JobState(job["state"]).terminal:
        return None
    grace = timedelta(seconds=0.0 if job["lease_token"] is None else LATE_GRACE_S)
    if job["deadline_at"] is not None and job["deadline_at"] + grace < now:
        return _LATE
    waits = job["started_at"] is None and job["state"] != JobState.RUNNING
    return _NOT_STARTED if waits and job["start_by"] is not None and job["start_by"] < now else None


async def start(rows: Rows, job: Row, token: int, worker_id: UUID) -> Lease:
    """Let a job (locked) and those that joined it run under a fresh token."""
    [started] = await move(rows, [job], JobState.RUNNING, lease=(token, worker_id), also=_counted)
    await start_followers(rows, started)
    return Lease(token=token, job=to_job(started))


async def start_followers(rows: Rows, leader: Row) -> None:
    """Let those that joined a job which has just started run with it."""
    followers = await followers_of(rows, leader)
    lease = (leader["lease_token"], leader["worker_id"])
    await move(rows, followers, JobState.RUNNING, lease=lease, also=_counted)


def _counted(job: Row) -> Columns:
    return {"attempts": job["attempts"] + 1}


def together(parts: Sequence[Swept]) -> Swept:
    """The sum of sweeps."""
    counts = {name: sum(getattr(part, name) for part in parts) for name in Swept.__struct_fields__[2:]}
    return Swept(
        ring=tuple(lane for part in parts for lane in part.ring),
        fallbacks=tuple(cause for part in parts for cause in part.fallbacks),
        **counts,
    )
