"""Jobs, workers and pictures for tests of stores."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg

from jobstore.ids import uuid7
from jobstore.job import CacheOutcome, Job, JobError, JobRequest, NewJob, Picture, PictureFormat, Replay
from jobstore.outputs import picture_key
from jobstore.protocol import Finish, JobStore, Lease, Pace, Swept, Worker
from jobstore.quotas import Quota, QuotaKind

PRICE = Decimal("0.002")
NOTHING = Decimal(0)
REFUSED = (psycopg.IntegrityError, sqlite3.IntegrityError)  # what a database says to a row that it can't hold
LANE = "default"


def new_job(
    fingerprint: str | None = None,
    *,
    lane: str = LANE,
    price: Decimal = PRICE,
    currency: str = "USD",
    key_id: UUID | None = None,
    team: str | None = None,
    customer: str | None = None,
    rate: Decimal | None = None,
    weight: float = 1.0,
    replay: Replay | None = None,
    max_attempts: int = 3,
    **request: Any,
) -> NewJob:
    """A job of 64x64 pixels in four steps; with its own fingerprint unless one is named."""
    job_id = uuid7()
    own = fingerprint or f"f-{job_id}"
    fields: dict[str, Any] = {
        "model": "m",
        "prompt": "a cat",
        "width": 64,
        "height": 64,
        "steps": 4,
        "seed": 1,
    } | request
    return NewJob(
        id=job_id,
        request=JobRequest(**fields),
        lane=lane,
        batch_key=str(fields["width"]),
        fingerprint=own,
        seedless_fingerprint=f"seedless-{own}",
        price=price,
        currency=currency,
        max_attempts=max_attempts,
        dimensions={"team": "a"},
        key_id=key_id,
        team=team,
        customer=customer,
        rate=rate,
        weight=weight,
        replay=replay,
    )


def new_quota(owner: str = "ads", most: Decimal | int = 1, kind: str = "spend", **fields: Any) -> Quota:
    """A quota of a team, of all time and in dollars unless told otherwise."""
    values: dict[str, Any] = {
        "id": uuid7(),
        "owner_kind": "team",
        "currency": "USD" if kind == "spend" else "",
    } | fields
    return Quota(owner=owner, kind=QuotaKind(kind), most=Decimal(most), **values)


def new_worker(*lanes: str) -> Worker:
    """A worker process that has just started."""
    return Worker(id=uuid7(), host="host", pid=1, device="cpu", lanes=lanes or (LANE,))


def pictures(job_id: UUID, token: int, n: int = 1, fmt: PictureFormat = PictureFormat.PNG) -> tuple[Picture, ...]:
    """Pictures as a worker that put them into the outputs would tell them."""
    return tuple(
        Picture(
            index=index,
            key=picture_key(job_id, token, index, fmt),
            seed=index,
            width=64,
            height=64,
            sha256=f"{index:064x}",
            size_bytes=10,
            media_type=fmt.media_type,
        )
        for index in range(n)
    )


def result(lease: Lease, cache: CacheOutcome = CacheOutcome.MISS) -> Finish:
    """A finished render of a lease's job."""
    return Finish(
        pictures=pictures(lease.job.id, lease.token, lease.job.request.n, lease.job.request.format),
        gpu_seconds=Decimal("0.5"),
        device="cpu",
        warnings=("the prompt was long",),
        cache=cache,
    )


async def claimed(store: JobStore, worker: Worker, lanes: Sequence[str] = (LANE,)) -> Lease:
    """The lease of the next job, which must be there."""
    lease = await store.claim(worker, lanes)
    assert lease is not None
    return lease


async def rendered(store: JobStore, worker: Worker) -> Job:
    """The next job, rendered."""
    lease = await claimed(store, worker)
    settled = await store.finish(lease.token, result(lease))
    assert settled is not None
    return settled.job


async def take(store: JobStore, count: int, lanes: Sequence[str] = (LANE,)) -> list[UUID]:
    """The ids of the next jobs in the order in which one worker claims them."""
    worker = new_worker(*lanes)
    return [(await claimed(store, worker, lanes)).job.id for _ in range(count)]


async def failed(store: JobStore, worker: Worker, code: str = "render_failed", lanes: Sequence[str] = (LANE,)) -> Job:
    """The next job, failed for good."""
    lease = await claimed(store, worker, lanes)
    settled = await store.fail(lease.token, JobError(code=code, message="it broke"))
    assert settled is not None
    return settled.job


async def measure(store: JobStore, worker: Worker, step_s: float) -> None:
    """Let the worker have measured so many seconds a step for what ``new_job`` asks for."""
    await store.beat(worker, [Pace(model="m", width=64, height=64, device=worker.device, step_s=step_s)])


async def sweep(store: JobStore, *, lease_s: float = 60, ring_again_s: float = 60, max_rescues: int = 3) -> Swept:
    """A sweep with the usual limits."""
    return await store.sweep(lease_s=lease_s, ring_again_s=ring_again_s, max_rescues=max_rescues)


async def states_told(store: JobStore, job_id: UUID) -> list[str]:
    """The states that a job's events tell, in order."""
    return [event.data["state"] for event in await store.events(job_id)]
