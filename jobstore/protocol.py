"""The one face of every job store. ``tests/contract`` says in code what each method promises."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Protocol
from uuid import UUID

from msgspec import Struct

from jobstore.audit import Actor, AuditStore
from jobstore.canaries import CanaryStore
from jobstore.job import CacheOutcome, Job, JobError, JobEvent, JobState, NewJob, Picture, Replay
from jobstore.keys import KeyStore
from jobstore.ledger import NOTHING_SPENT, Balance, Spent, UsageRow
from jobstore.migrating import Standing
from jobstore.operating.protocol import OperatorStore
from jobstore.operating.workers import WorkerReport
from jobstore.quotas import QuotaStore
from jobstore.reports.protocol import ReportStore
from jobstore.retention import Ages, Purged
from jobstore.webhooks.protocol import WebhookStore


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


class Beat(Struct, frozen=True, kw_only=True):
    """What a beat brings back. ``drain`` says that the worker is to claim no more."""

    held: tuple[HeldLease, ...] = ()
    drain: bool = False


class Worker(Struct, frozen=True, kw_only=True):
    """A worker process. ``id`` is fresh at every start, so that a restarted host is never taken for the dead one.

    It counts as a device of its lanes for ``lease_s`` seconds after each beat.
    """

    id: UUID
    host: str
    pid: int
    device: str
    lanes: tuple[str, ...]
    lease_s: float = 30.0


class Finish(Struct, frozen=True, kw_only=True):
    """The result of a render. ``cache`` is ``hit`` when the pictures were found: then nothing is charged.

    ``gpu_seconds`` is the job's share of the device's time, ``batch_rows`` how many pictures shared its steps on the
    average, its own among them, and ``mates`` some of the jobs that did.
    """

    pictures: tuple[Picture, ...]
    gpu_seconds: Decimal = Decimal(0)
    device: str = ""
    warnings: tuple[str, ...] = ()
    cache: CacheOutcome = CacheOutcome.MISS
    batch_rows: float | None = None
    mates: tuple[UUID, ...] = ()


class Settled(Struct, frozen=True, kw_only=True):
    """What a fenced write changed: the job, and the lanes that want a bell because jobs were queued by it."""

    job: Job
    ring: tuple[str, ...] = ()


class CachedPictures(Struct, frozen=True, kw_only=True):
    """Pictures that an earlier job left in the cache."""

    fingerprint: str
    pictures: tuple[Picture, ...]
    created_at: datetime


class Swept(Struct, frozen=True, kw_only=True):
    """What a sweep changed, and one lane for each bell that should ring.

    ``fallbacks`` tells why jobs went to their next route: ``lane_down``, ``lane_full`` or an error's code, one each.
    """

    ring: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()
    rescued: int = 0
    dead: int = 0
    expired: int = 0
    staged: int = 0
    canceled: int = 0


class Lane(Struct, frozen=True, kw_only=True):
    """A lane: a queue that a pool of workers serves.

    ``waiting_s`` is the device time, in seconds, that its queued jobs are expected to take together, ``oldest_s`` the
    age of the one that waits longest; ``devices`` counts the workers that live and take further jobs of it:
    not those that drain. ``slots`` is how many jobs these hold at once, together.
    """

    name: str
    paused_at: datetime | None = None
    reason: str = ""
    scheduled: int = 0
    queued: int = 0
    running: int = 0
    waiting_s: float = 0.0
    oldest_s: float = 0.0
    devices: int = 0
    slots: int = 0

    @property
    def drain_s(self) -> float | None:
        """Seconds until what is queued now will have been started; None while no worker serves the lane."""
        return self.waiting_s / self.devices if self.devices else None


class Backlog(Struct, frozen=True, kw_only=True):
    """What waits: by lane, and how many jobs of each API key, scheduled ones too (None: those without a key)."""

    lanes: dict[str, Lane]
    keys: dict[UUID | None, int]


class Pace(Struct, frozen=True, kw_only=True):
    """How fast a device renders: ``step_s`` seconds of device time a denoising step of one image."""

    model: str
    width: int
    height: int
    device: str
    step_s: float


class LaneCount(Struct, frozen=True, kw_only=True):
    """How many jobs a lane holds in one state (terminal states are not counted)."""

    lane: str
    state: JobState
    count: int


class JobStore(AuditStore, CanaryStore, KeyStore, OperatorStore, QuotaStore, ReportStore, WebhookStore, Protocol):
    """Where jobs live. Every method is one transaction; the store's own clock decides all times.

    A store belongs to the event loop that opened it. Methods raise JobStoreError's kinds, and the driver's own
    errors when the database can't be reached.
    """

    async def open(self) -> None:
        """Connect; raises after a bounded wait when the store can't be reached."""

    async def close(self) -> None:
        """Let go of all connections."""

    async def migrate(self, *, contract: bool = False) -> tuple[str, ...]:
        """Bring the schema up to date and tell the names of the migrations applied.

        Safe when several processes do it at once. What takes away something that the release before needs is
        applied with ``contract`` alone, unless the schema is new. Raises MigrationError as ``schema`` does.
        """

    async def schema(self) -> Standing:
        """How the schema and this program stand.

        Raises MigrationError on a migration changed since, and on a schema that this program is too old for.
        """

    async def ping(self) -> None:
        """Return if the store answers and this program works on its schema; raises otherwise."""

    # Clients' side

    async def submit(self, new: NewJob, pictures: Sequence[Picture] = ()) -> Job:
        """Accept a job: its row, its reservation and its first event, in one transaction.

        With ``pictures`` (found in the cache) the job is ``succeeded`` at once, cost 0, cache ``hit``.
        Else, where the request's cache mode reads and an identical render is in flight, the job joins it: its
        state follows that of its leader, and it costs nothing. Else it is ``queued`` (``scheduled`` when
        ``start_at`` lies ahead) and its price is reserved. Two identical submits at once make one render. A queued
        job comes back with its place in the queue.

        What a job may come to at most (``new.ceiling``) is held in its key's, team's and customer's quotas until it
        ends; then what it was charged stays. Any number of processes together never take more than a quota allows.
        How they stand after it, the job's ``quotas`` tell. Raises QuotaExceededError, and nothing is written.

        Under a ``replay`` key that was used before, nothing is written and the first job comes back (its id is not
        ``new.id``). Any number of submits with one key at once make one job. Raises ReplayMismatchError where the
        key was used for another request, ReplayGoneError.
        """

    async def find_replay(self, key_id: UUID | None, replay: Replay) -> Job | None:
        """The job that ``submit`` would answer with under that key of that API key; None where it would make one.

        Only reads. It lets a known request be answered before the cache is asked and while the queue takes nothing
        new; ``submit`` decides all the same, for another process may be faster. Raises ReplayMismatchError and
        ReplayGoneError as ``submit`` does.
        """

    async def get(self, job_id: UUID) -> Job:
        """The job. Raises JobNotFoundError."""

    async def get_many(self, job_ids: Sequence[UUID]) -> tuple[Job, ...]:
        """Those jobs of these that there are, in any order, without their places in the queue."""

    async def cancel(self, job_id: UUID, by: Actor | None = None) -> Settled:
        """Cancel; asking again changes nothing, and a finished job stays as it is.

        With ``by``, what it changes is in the audit log (``jobs.canceled``).

        A waiting job is ``canceled`` at once. A running one gets ``cancel_requested`` and ends at its worker's next
        step boundary. Where other jobs joined it, it is canceled at once and the first of them takes over its
        place in the queue or its lease, and its price. Raises JobNotFoundError.
        """

    async def retry(self, job_id: UUID, by: Actor | None = None) -> Settled:
        """Queue a failed or dead job anew, with fresh attempts; with ``by`` it is in the audit log, as a redrive is.

        It takes a place at the end of the queue. Raises JobNotFoundError, IllegalTransitionError, QuotaExceededError.
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

        The next is the one of lowest rank: docs/fairness.md says how ranks share a lane between API keys and
        priorities. Lanes that are paused, and jobs whose deadline passed, are left out; a worker that is asked to drain
        gets none.

        The claim counts as a beat of the worker and as an attempt of the job.
        """

    async def beat(self, worker: Worker, paces: Sequence[Pace] = (), report: WorkerReport | None = None) -> Beat:
        """Say that the worker lives; brings back the leases that it still holds, and which are to be canceled.

        ``report`` is what it tells of itself; the one before stays where there is none.

        ``paces`` are what it measured since the last beat; they decide how much device time later jobs are expected
        to take.
        """

    async def finish(self, token: int, result: Finish) -> Settled | None:
        """Fenced: pictures, charge, usage, event and state ``succeeded`` in one transaction; None if the token is old.

        Jobs that joined get the same pictures at no cost, if they want the same format; others go back to the queue.
        """

    async def fail(
        self, token: int, error: JobError, retry_in_s: float | None = None, spent: Spent = NOTHING_SPENT
    ) -> Settled | None:
        """Fenced: the render failed. None if the token is old.

        Without ``retry_in_s`` the job is ``failed``. With it, it is tried again after so many seconds (0: at once), or
        is ``dead`` when its attempts are used up. An error that concerns this job alone leaves those that joined it
        queued.
        """

    async def canceled(self, token: int, spent: Spent = NOTHING_SPENT) -> Settled | None:
        """Fenced: the worker stopped the job on request. None if the token is old."""

    async def release(self, token: int, spent: Spent = NOTHING_SPENT) -> Settled | None:
        """Fenced: hand the job back unrendered (a graceful stop); no attempt is counted. None if the token is old."""

    async def leave(self, worker_id: UUID) -> None:
        """Take a worker that stops, and holds no lease any more, off the list; its host is known for another day."""

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

    async def paces(self) -> tuple[Pace, ...]:
        """What workers measured, by model, size and device."""

    # Lanes

    async def lanes(self) -> tuple[Lane, ...]:
        """All lanes that ever held a job, were served or were paused, by name. Counts every queued job."""

    async def arriving(self, seconds: float) -> dict[str, float]:
        """By lane, how many devices would keep up with what came in lately, in so many seconds.

        It is the device time that those jobs were expected to take, over the time in which they came. Reads each of
        them: ask now and then.
        """

    async def backlog(self) -> Backlog:
        """What is queued. Counts every queued job: ask now and then, not for each request."""

    # With ``by``, pausing or resuming and its audit entry are one transaction.

    async def pause_lane(self, name: str, reason: str = "", by: Actor | None = None) -> None:
        """Let no job of the lane be claimed until it is resumed; submits go on, and so do running jobs."""

    async def resume_lane(self, name: str, by: Actor | None = None) -> tuple[str, ...]:
        """Let the lane's jobs be claimed again; one lane for each bell to ring. Not paused: nothing changes."""

    # Money

    async def balance(self, key_id: UUID, currency: str) -> Balance:
        """What an API key's jobs hold reserved, and what they were charged in all."""

    async def usage(self, job_id: UUID) -> tuple[UsageRow, ...]:
        """The job's rows of the usage ledger, in order."""

    # Retention

    async def purge(self, ages: Ages, limit: int = 1000) -> Purged:
        """Delete up to ``limit`` of each kind of what is past its age. Any number of processes may purge at once.

        Pictures are not deleted here: their keys are put down as doomed.
        """

    async def doomed(self, limit: int = 1000) -> tuple[str, ...]:
        """Keys of outputs that were put down as doomed ten minutes ago or more, and that nothing points at."""

    async def doom(self, keys: Sequence[str]) -> None:
        """Put keys of outputs down as doomed, from now on."""

    async def bury(self, keys: Sequence[str]) -> None:
        """Forget doomed keys: what lay under them is deleted."""

    async def pointed_at(self, keys: Sequence[str]) -> frozenset[str]:
        """Those of the keys of outputs that a job or a cache entry points at."""
