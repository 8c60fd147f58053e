"""The one face of every job store. ``tests/contract`` says in code what each method promises."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Protocol
from uuid import UUID

from msgspec import Struct

from jobstore.job import CacheOutcome, Job, JobError, JobEvent, JobState, NewJob, Picture


class Lease(Struct, frozen=True, kw_only=True):
    """The right to render one job: whatever is written under ``token`` counts only while the store still knows it."""

    token: int
    job: Job


class HeldLease(Struct, frozen=True, kw_only=True):
    """What a beat brings back for each lease that the worker still holds.

    ``job_id`` may differ from the claimed job's: when that was canceled, a job that had joined it took over the lease.
    """

    token: int
    job_id: UUID
    cancel_requested: bool


class Worker(Struct, frozen=True, kw_only=True):
    """A worker process. ``id`` is fresh at every start, so that a restarted host is never taken for the dead one."""

    id: UUID
    host: str
    pid: int
    device: str
    lanes: tuple[str, ...]


class Finish(Struct, frozen=True, kw_only=True):
    """The result of a render. ``cache`` is ``hit`` when the pictures were found: then nothing is charged.

    ``gpu_seconds`` is the job's share of the device's time.
    """

    pictures: tuple[Picture, ...]
    gpu_seconds: Decimal = Decimal(0)
    device: str = ""
    warnings: tuple[str, ...] = ()
    cache: CacheOutcome = CacheOutcome.MISS


class Settled(Struct, frozen=True, kw_only=True):
    """What a fenced write changed: the job, and the lanes that want a bell because jobs were queued by it."""

    job: Job
    ring: tuple[str, ...] = ()


class JobFilter(Struct, frozen=True, kw_only=True):
    """Which jobs to list. ``cursor`` is what the page before gave."""

    state: JobState | None = None
    model: str | None = None
    key_id: UUID | None = None
    limit: int = 50
    cursor: str | None = None


class JobPage(Struct, frozen=True, kw_only=True):
    """Jobs, newest first, and the cursor of the next page (None on the last)."""

    jobs: tuple[Job, ...]
    next_cursor: str | None = None


class CachedPictures(Struct, frozen=True, kw_only=True):
    """Pictures that an earlier job left in the cache."""

    fingerprint: str
    pictures: tuple[Picture, ...]
    created_at: datetime


class Swept(Struct, frozen=True, kw_only=True):
    """What a sweep changed, and one lane for each bell that should ring."""

    ring: tuple[str, ...] = ()
    rescued: int = 0
    dead: int = 0
    expired: int = 0
    staged: int = 0
    canceled: int = 0


class LaneCount(Struct, frozen=True, kw_only=True):
    """How many jobs a lane holds in one state (terminal states are not counted)."""

    lane: str
    state: JobState
    count: int


class ApiKey(Struct, frozen=True, kw_only=True):
    """A key's public half: the secret itself is never stored, only its hash."""

    id: UUID
    name: str
    admin: bool
    hint: str
    created_at: datetime
    revoked_at: datetime | None = None


class JobStore(Protocol):
    """Where jobs live. Every method is one transaction; the store's own clock decides all times.

    A store belongs to the event loop that opened it. Methods raise JobStoreError's kinds, and the driver's own
    errors when the database can't be reached.
    """

    async def open(self) -> None:
        """Connect; raises after a bounded wait when the store can't be reached."""

    async def close(self) -> None:
        """Let go of all connections."""

    async def migrate(self) -> tuple[str, ...]:
        """Bring the schema up to date and tell the names of the migrations applied.

        Safe when several processes do it at once. Raises MigrationError on a changed checksum or a newer schema.
        """

    async def ping(self) -> None:
        """Return if the store answers and its schema is up to date; raises otherwise."""

    # Clients' side

    async def submit(self, new: NewJob, pictures: Sequence[Picture] = ()) -> Job:
        """Accept a job: its row, its reservation and its first event, in one transaction.

        With ``pictures`` (found in the cache) the job is ``succeeded`` at once, cost 0, cache ``hit``.
        Else, where the request's cache mode reads and an identical render is in flight, the job joins it: its
        state follows that of its leader, and it costs nothing. Else it is ``queued`` (``scheduled`` when
        ``start_at`` lies ahead) and its price is reserved. Two identical submits at once make one render. A queued
        job comes back with its place in the queue.
        """

    async def get(self, job_id: UUID) -> Job:
        """The job. Raises JobNotFoundError."""

    async def list_jobs(self, where: JobFilter) -> JobPage:
        """Jobs newest first. Raises ValueError on a cursor that no page gave."""

    async def cancel(self, job_id: UUID) -> Settled:
        """Cancel; asking again changes nothing, and a finished job stays as it is.

        A waiting job is ``canceled`` at once. A running one gets ``cancel_requested`` and ends at its worker's next
        step boundary. Where other jobs joined it, it is canceled at once and the first of them takes over its
        place in the queue or its lease, and its price. Raises JobNotFoundError.
        """

    async def retry(self, job_id: UUID) -> Settled:
        """Queue a failed or dead job anew, with fresh attempts.

        Raises JobNotFoundError, IllegalTransitionError.
        """

    async def events(self, job_id: UUID, after: int = 0) -> tuple[JobEvent, ...]:
        """The job's durable events with ``seq > after``, in order."""

    async def events_since(self, after: int, limit: int = 1000) -> tuple[JobEvent, ...]:
        """Events of all jobs with ``seq > after``, for a process's one tailer.

        Sequence numbers of different jobs may become visible out of order: read an overlap.
        """

    async def last_event(self) -> int:
        """The highest ``seq`` so far, 0 before the first."""

    # Cache

    async def find_cached(self, fingerprint: str) -> CachedPictures | None:
        """The pictures of that fingerprint."""

    async def find_cached_any(self, seedless_fingerprint: str) -> CachedPictures | None:
        """The newest pictures of that fingerprint, whatever their seed."""

    async def forget_cached(self, fingerprint: str) -> None:
        """Drop the entry, because its pictures were purged from the outputs."""

    # Workers' side

    async def claim(self, worker: Worker, lanes: Sequence[str], prefer: str | None = None) -> Lease | None:
        """Take the next job of the lanes, mates of the ``prefer`` batch key first within a bound; None if none waits.

        The claim counts as a beat of the worker and as an attempt of the job.
        """

    async def beat(self, worker: Worker) -> tuple[HeldLease, ...]:
        """Say that the worker lives; brings back the leases that it still holds, and which are to be canceled."""

    async def finish(self, token: int, result: Finish) -> Settled | None:
        """Fenced: pictures, charge, usage, event and state ``succeeded`` in one transaction; None if the token is old.

        Jobs that joined get the same pictures at no cost, if they want the same format; others go back to the queue.
        """

    async def fail(self, token: int, error: JobError, retry_in_s: float | None = None) -> Settled | None:
        """Fenced: the render failed. None if the token is old.

        Without ``retry_in_s`` the job is ``failed``. With it, it is tried again after so many seconds (0: at once), or
        is ``dead`` when its attempts are used up. An error that concerns this job alone leaves those that joined it
        queued.
        """

    async def canceled(self, token: int, gpu_seconds: Decimal = Decimal(0)) -> Settled | None:
        """Fenced: the worker stopped the job on request. None if the token is old."""

    async def release(self, token: int) -> Settled | None:
        """Fenced: hand the job back unrendered (a graceful stop); no attempt is counted. None if the token is old."""

    async def leave(self, worker_id: UUID) -> None:
        """Forget a worker that stops and holds no lease any more."""

    # Any process

    async def sweep(self, *, lease_s: float, ring_again_s: float, max_rescues: int, limit: int = 100) -> Swept:
        """Take back leases of silent workers, stage what is due, fail what is late, and tell what wants a bell.

        A job whose worker was silent for over ``lease_s`` is queued again, ``dead`` after ``max_rescues`` of these, or
        ``canceled`` if that had been asked. Queued jobs without a bell for ``ring_again_s`` want one. Any number of
        processes may sweep at once: each change happens once.
        """

    async def counts(self) -> tuple[LaneCount, ...]:
        """Unfinished jobs by lane and state."""

    async def workers(self, within_s: float) -> tuple[Worker, ...]:
        """The workers that claimed or beat within so many seconds, oldest first."""

    # Keys

    async def create_key(self, name: str, secret_hash: str, hint: str, *, admin: bool) -> ApiKey:
        """Keep a new key by the hash of its secret."""

    async def find_key(self, secret_hash: str) -> ApiKey | None:
        """The key with that hash, unless it is revoked."""

    async def list_keys(self) -> tuple[ApiKey, ...]:
        """All keys, oldest first, the revoked ones too."""

    async def revoke_key(self, key_id: UUID) -> bool:
        """Revoke; False if there is no such key."""
