"""A job store in plain Python: what the protocol promises, written a second time, to compare the real ones with.

It keeps everything in dictionaries, knows no time (whatever lies ahead never comes, what is late is late from the
start), and does one thing after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from uuid import UUID

from msgspec.structs import replace

from jobstore.job import CacheMode, CacheOutcome, JobError, JobState, NewJob, Picture
from jobstore.ledger import Balance, Outcome
from jobstore.states import TRANSITIONS

NOTHING = Decimal(0)
MATES_BOUND_S = 30.0
ADVANCE_BOUND_S = 540.0


class Refused(Exception):
    """The store says no; the message says which of its errors it raises."""


@dataclass(frozen=True)
class PlainUsage:
    """A row of the ledger, without times. ``token`` is the plain store's own."""

    attempt: int
    token: int | None
    outcome: Outcome
    error_code: str | None
    cache: CacheOutcome
    gpu_seconds: Decimal
    price: Decimal
    charged: Decimal


@dataclass
class PlainJob:
    """A job. ``tag`` and ``rank`` are its place in its lane, ``share`` what it moves its tenant's next job by.

    ``new`` is what it is now: another model's, where that took over. ``been`` are the lanes that it has left.
    """

    new: NewJob
    seq: int
    allowed: int
    share: float = 0.0
    tag: float = 0.0
    rank: float = 0.0
    state: JobState = JobState.QUEUED
    cache: CacheOutcome = CacheOutcome.MISS
    joinable: bool = False
    leader: UUID | None = None
    token: int | None = None
    worker: UUID | None = None
    reserved: Decimal = NOTHING
    charged: Decimal = NOTHING
    gpu_seconds: Decimal = NOTHING
    attempts: int = 0
    rescues: int = 0
    cancel_requested: bool = False
    error: str | None = None
    started: bool = False
    ended: int | None = None
    late: bool = False
    late_start: bool = False
    pictures: tuple[Picture, ...] = ()
    events: list[tuple[str, int]] = field(default_factory=list)
    usage: list[PlainUsage] = field(default_factory=list)
    been: set[str] = field(default_factory=set)

    @property
    def lane(self) -> str:
        """Where it is, or was at its end."""
        return self.new.lane

    @property
    def routes(self) -> int:
        """How many it has not taken yet."""
        return len(self.new.fallbacks)

    @property
    def id(self) -> UUID:
        """As the client chose it."""
        return self.new.id

    @property
    def waits(self) -> bool:
        """True when it stands in its lane's queue itself."""
        return self.state is JobState.QUEUED and self.leader is None

    @property
    def overdue(self) -> bool:
        """True when a deadline ends it unless somebody renders it."""
        return self.late or (self.late_start and not self.started)


@dataclass
class PlainLane:
    """A lane and its clock."""

    paused: bool = False
    virtual: float = 0.0
    tenants: int = 1
    served: int = 0


class PlainStore:
    """The store."""

    def __init__(self) -> None:
        """Empty."""
        self.jobs: dict[UUID, PlainJob] = {}
        self.lanes: dict[str, PlainLane] = {}
        self.cached: dict[str, tuple[Picture, ...]] = {}
        self.replays: dict[tuple[UUID | None, str], tuple[str, UUID]] = {}
        self.tokens = 0
        self.moments = 0

    # What is asked

    def balance(self, key_id: UUID) -> Balance:
        """A balance is the sum over the key's jobs, and nothing else."""
        mine = [job for job in self.jobs.values() if job.new.key_id == key_id]
        return Balance(
            reserved=sum((job.reserved for job in mine), NOTHING), charged=sum((job.charged for job in mine), NOTHING)
        )

    def position(self, job: PlainJob) -> int | None:
        """The place in the queue, from 1; that of its leader for a job that joined."""
        if job.state is not JobState.QUEUED:
            return None
        stands = job if job.leader is None else self.jobs[job.leader]
        return 1 + sum((other.rank, other.seq) < (stands.rank, stands.seq) for other in self._queue(stands.new.lane))

    def leases(self) -> list[int]:
        """The tokens under which jobs are held."""
        return sorted(job.token for job in self.jobs.values() if job.token is not None)

    def held(self, worker: UUID) -> set[tuple[int, UUID, bool]]:
        """The leases of a worker: token, job, and whether it is to be canceled."""
        holds = [job for job in self.jobs.values() if job.worker == worker and job.token is not None]
        return {(job.token, job.id, job.cancel_requested) for job in holds if job.token is not None}

    # The order in which jobs start

    def _queue(self, lane: str) -> list[PlainJob]:
        waiting = [job for job in self.jobs.values() if job.waits and job.new.lane == lane]
        return sorted(waiting, key=lambda job: (job.rank, job.seq))

    def _start_tag(self, new: NewJob) -> float:
        """Behind what the tenant had in the lane, and never before the lane's clock."""
        mine = [
            job
            for job in self.jobs.values()
            if (job.new.lane, job.new.key_id, job.leader) == (new.lane, new.key_id, None)
            and (job.state is JobState.QUEUED or job.started)
        ]
        last = max(mine, key=lambda job: job.tag, default=None)
        virtual = self._lane(new.lane).virtual
        return virtual if last is None else max(virtual, last.tag + last.share)

    def debt(self) -> bool:
        """Whether a key's place still depends on a job that has ended."""
        over = [job for job in self.jobs.values() if job.started and job.state.terminal]
        return any(job.tag + job.share > self._lane(job.new.lane).virtual for job in over)

    def _move_clock(self, started: PlainJob) -> None:
        """To the tag of the job that starts and a little further, but not far ahead of it."""
        lane = self._lane(started.new.lane)
        now = max(lane.virtual, started.tag)
        ahead = now + started.share / (2 * lane.tenants + 1)
        lane.virtual = max(now, min(ahead, started.tag + ADVANCE_BOUND_S))
        lane.served = self._moment()

    def _next(self, lanes: Iterable[str], prefer: str | None) -> PlainJob | None:
        """The job that a claim takes."""
        ready = [job for name in lanes for job in self._queue(name) if not self._lane(name).paused and not job.overdue]
        # Lanes have clocks of their own: they are served in turn.
        heads = {job.new.lane: job for job in reversed(ready)}.values()
        head = min(heads, key=lambda job: (self._lane(job.new.lane).served, job.seq), default=None)
        if head is None or prefer is None or head.new.batch_key == prefer:
            return head
        bound = head.rank + MATES_BOUND_S
        mates = [job for job in ready if job.new.lane == head.new.lane and job.new.batch_key == prefer]
        return next((job for job in mates if job.rank <= bound), head)

    def _lane(self, name: str) -> PlainLane:
        return self.lanes.setdefault(name, PlainLane())

    # Clients

    def submit(self, new: NewJob, pictures: Sequence[Picture], expected_s: float) -> PlainJob:
        """Replayed, answered, joined or queued."""
        if new.replay is not None:
            known = self.replays.get((new.key_id, new.replay.key))
            if known is not None and not new.replay.renew:
                if known[0] != new.replay.body_sha256:
                    raise Refused("ReplayMismatchError")
                return self.jobs[known[1]]
            self.replays[new.key_id, new.replay.key] = (new.replay.body_sha256, new.id)
        for lane in new.lanes:
            self._lane(lane)
        job = PlainJob(new, seq=len(self.jobs), allowed=new.max_attempts, share=expected_s / new.weight)
        job.tag = self._start_tag(new)
        job.rank = job.tag + (5 - new.request.priority) * new.priority_quantum_s
        job.late = new.request.deadline_s is not None
        job.late_start = new.request.start_deadline_s is not None
        self._accept(job, pictures)
        self.jobs[job.id] = job
        self._tell(job)
        if pictures:
            self._book(job, job, "succeeded", NOTHING)
        return job

    def _accept(self, job: PlainJob, pictures: Sequence[Picture]) -> None:
        mode, later = job.new.request.cache, job.new.request.start_at is not None
        leader = None if later else self._in_flight(job.new.fingerprint)
        if pictures:
            job.state, job.cache, job.started, job.pictures = (
                JobState.SUCCEEDED,
                CacheOutcome.HIT,
                True,
                tuple(pictures),
            )
            job.ended = self._moment()
            job.share = 0.0
        elif leader is not None and mode.reads:
            job.state, job.cache, job.leader, job.joinable = leader.state, CacheOutcome.JOINED, leader.id, True
            job.started = leader.state is JobState.RUNNING
            if leader.state is JobState.QUEUED:
                leader.rank, leader.tag = min(
                    (leader.rank, leader.tag), (job.rank, job.tag), key=lambda place: place[0]
                )
        else:
            job.state = JobState.SCHEDULED if later else JobState.QUEUED
            job.joinable = mode.writes and not later and leader is None
            job.reserved = job.new.price

    def _in_flight(self, fingerprint: str) -> PlainJob | None:
        found = [
            job
            for job in self.jobs.values()
            if job.new.fingerprint == fingerprint and job.joinable and job.leader is None and not job.state.terminal
        ]
        assert len(found) <= 1
        return found[0] if found else None

    def cancel(self, job_id: UUID) -> list[str]:
        """At once, unless a worker renders it for nobody else."""
        job = self.jobs[job_id]
        if job.state.terminal:
            return []
        if job.token is not None and not self._followers(job):
            job.cancel_requested = True
            return []
        return self._end_now(job, JobState.CANCELED)

    def retry(self, job_id: UUID) -> list[str]:
        """With fresh attempts, at the end of the queue, for itself."""
        job = self.jobs[job_id]
        if job.state not in (JobState.FAILED, JobState.DEAD):
            raise Refused("IllegalTransitionError")
        offset = job.rank - job.tag
        job.tag = self._start_tag(job.new)
        job.rank = job.tag + offset
        job.joinable, job.leader, job.cache, job.rescues = False, None, CacheOutcome.MISS, 0
        job.late = job.late_start = False
        job.allowed = job.attempts + job.new.max_attempts
        self._move([job], JobState.QUEUED)
        job.reserved = job.new.price
        return [job.new.lane]

    def dead_letters(self) -> list[PlainJob]:
        """In the order of their ends."""
        ended = [job for job in self.jobs.values() if job.state in (JobState.FAILED, JobState.DEAD)]
        return sorted(ended, key=lambda job: job.ended or 0)

    # Workers

    def claim(self, worker: UUID, lanes: Sequence[str], prefer: str | None) -> PlainJob | None:
        """The next job runs, and with it those that joined."""
        job = self._next(lanes, prefer)
        if job is None:
            return None
        self.tokens += 1
        self._move_clock(job)
        running = [job, *self._followers(job)]
        for one in running:
            one.attempts += 1
        self._move(running, JobState.RUNNING, token=self.tokens, worker=worker)
        return job

    def under(self, token: int) -> PlainJob | None:
        """The job that is held under a token."""
        return next((job for job in self.jobs.values() if job.token == token), None)

    def finish(self, leader: PlainJob, pictures: tuple[Picture, ...], cache: CacheOutcome, gpu: Decimal) -> list[str]:
        """Pictures for all that want that file format; others wait again."""
        lease = (leader.token, leader.worker)
        followers = self._followers(leader)
        alike = [job for job in followers if self._answered(job, leader, pictures, cache)]
        leader.cache = cache
        leader.charged = leader.reserved if cache is CacheOutcome.MISS else NOTHING
        leader.gpu_seconds += gpu
        self._move([leader], JobState.SUCCEEDED)
        self._move(alike, JobState.SUCCEEDED)
        for job in (leader, *alike):
            job.pictures = pictures
            self._book(job, leader, "succeeded", gpu if job is leader else NOTHING, token=lease[0])
        if cache is CacheOutcome.MISS and leader.new.request.cache is not CacheMode.OFF:
            self.cached[leader.new.fingerprint] = pictures
        return self._detach([job for job in followers if job not in alike])

    @staticmethod
    def _answered(job: PlainJob, leader: PlainJob, pictures: tuple[Picture, ...], cache: CacheOutcome) -> bool:
        """The same file format, and the seed that was asked for, or any."""
        wanted, asked = job.new.request, leader.new.request
        other_seed = cache is CacheOutcome.HIT and any(picture.seed != asked.seed for picture in pictures[:1])
        return wanted.format == asked.format and (not other_seed or wanted.cache is CacheMode.ANY)

    def fail(self, leader: PlainJob, code: str, retry_in_s: float | None, gpu: Decimal) -> list[str]:
        """For good, to be tried again, or once too often; a deadline is the leader's alone."""
        followers = self._followers(leader)
        own = code == "deadline_exceeded"
        if own and not leader.late:
            return self.release(leader, gpu)
        self._spend(leader, "failed", gpu, code)
        if retry_in_s is not None and leader.cancel_requested:
            return self._stop(leader)
        ring = self._detach(followers) if own else []
        jobs = [leader] if own else [leader, *followers]
        used_up = leader.attempts >= leader.allowed
        if retry_in_s is None or used_up:
            jobs, sent = self._send_on(leader, jobs, code)
            ring = [*ring, *sent]
        if retry_in_s is None:
            self._move(jobs, JobState.FAILED, error=code)
        elif used_up:
            self._move(jobs, JobState.DEAD, error=code)
        elif retry_in_s > 0:
            self._move(jobs, JobState.SCHEDULED, error=code)
        else:
            self._move(jobs, JobState.QUEUED, error=code)
            ring = [*ring, leader.new.lane]
        return ring

    def canceled(self, leader: PlainJob, gpu: Decimal) -> list[str]:
        """Those that joined in the meantime wait again."""
        self._spend(leader, "canceled", gpu)
        return self._stop(leader)

    def _stop(self, leader: PlainJob) -> list[str]:
        ring = self._detach(self._followers(leader))
        self._move([leader], JobState.CANCELED)
        return ring

    def release(self, leader: PlainJob, gpu: Decimal) -> list[str]:
        """In its old place; no attempt is counted."""
        self._spend(leader, "handed_back", gpu)
        if leader.cancel_requested:
            return self._stop(leader)
        self._give_back(leader)
        return [leader.new.lane]

    # Time

    def sweep(self, *, lost: bool, ring_again: bool, max_rescues: int) -> tuple[list[str], dict[str, int]]:
        """Take back all leases where they are lost, end what is late, ring for what waits, count tenants."""
        done = {"rescued": 0, "dead": 0, "canceled": 0, "expired": 0, "sent on": 0}
        ring: list[str] = []
        for job in sorted(self.jobs.values(), key=lambda job: job.seq):
            if lost and job.token is not None:
                fate, rung = self._take_back(job, max_rescues)
                done[fate] += 1
                ring += rung
        if ring_again:
            ring += [name for name, lane in self.lanes.items() if not lane.paused for _ in self._queue(name)]
        overdue = [job for job in self.jobs.values() if not job.state.terminal and job.overdue]
        for job in sorted(overdue, key=lambda job: job.seq):
            if job.token is not None:
                self._book(job, job, "lost", NOTHING, "deadline_exceeded")
            ring += self._end_now(job, JobState.FAILED, "deadline_exceeded")
            done["expired"] += 1
        for name, lane in self.lanes.items():
            lane.tenants = max(1, len({job.new.key_id for job in self._queue(name)}))
        return ring, done

    def _take_back(self, job: PlainJob, max_rescues: int) -> tuple[str, list[str]]:
        self._book(job, job, "lost", NOTHING, "worker_lost")
        if job.cancel_requested:
            return "canceled", self._stop(job)
        if job.rescues + 1 >= max_rescues:
            jobs, ring = self._send_on(job, [job, *self._followers(job)], "worker_lost")
            for one in jobs:
                one.rescues += 1
            self._move(jobs, JobState.DEAD, error="worker_lost")
            return ("dead" if job in jobs else "sent on"), ring
        self._give_back(job, rescues=1)
        return "rescued", [job.new.lane]

    # Lanes

    def pause(self, name: str) -> None:
        """Nothing of it is claimed."""
        self._lane(name).paused = True

    def resume(self, name: str) -> list[str]:
        """A bell for each job that waits."""
        lane = self.lanes.get(name)
        if lane is None or not lane.paused:
            return []
        lane.paused = False
        return [name for _ in self._queue(name)]

    # Transitions

    def _followers(self, leader: PlainJob) -> list[PlainJob]:
        return [job for job in self.jobs.values() if job.leader == leader.id and not job.state.terminal]

    def _move(
        self,
        jobs: Sequence[PlainJob],
        state: JobState,
        *,
        token: int | None = None,
        worker: UUID | None = None,
        error: str | None = None,
    ) -> None:
        moment = self._moment()
        for job in jobs:
            assert state in TRANSITIONS[job.state], (job, state)
            job.state, job.error, job.worker = state, error, worker
            job.token = token if job.leader is None else None
            job.ended = moment if state.terminal else None
            job.started = job.started or state is JobState.RUNNING
            if state.terminal:
                job.reserved = NOTHING
                job.cache = CacheOutcome.JOINED if job.leader is not None else job.cache
            elif state is not JobState.RUNNING:
                job.cancel_requested = False
            self._tell(job)

    def _moment(self) -> int:
        self.moments += 1
        return self.moments

    def _tell(self, job: PlainJob) -> None:
        job.events.append((job.state.value, job.attempts))

    def _give_back(self, leader: PlainJob, rescues: int = 0) -> None:
        jobs = [leader, *self._followers(leader)]
        for job in jobs:
            job.attempts = max(job.attempts - 1, 0)
            job.rescues += rescues
        self._move(jobs, JobState.QUEUED)

    def _detach(self, followers: Sequence[PlainJob]) -> list[str]:
        for job in followers:
            job.leader, job.joinable, job.cache = None, False, CacheOutcome.MISS
            job.reserved, job.state, job.worker = job.new.price, JobState.QUEUED, None
            job.attempts = job.rescues = 0
            self._tell(job)
        return [job.new.lane for job in followers]

    def _send_on(self, leader: PlainJob, jobs: list[PlainJob], code: str) -> tuple[list[PlainJob], list[str]]:
        """Those that stay, and the lanes of those that go; who would get the same pixels goes with the first."""
        if not JobError(code=code, message="").concerns_model or leader.cancel_requested:
            return jobs, []
        together: dict[str, list[PlainJob]] = {}
        for job in jobs:
            if job.new.fallbacks:
                together.setdefault(job.new.fallbacks[0].fingerprint, []).append(job)
        for first, *others in together.values():
            self._take_route(first, None, code)
            for job in others:
                self._take_route(job, first.id, code)
        gone = [job for group in together.values() for job in group]
        return [job for job in jobs if job not in gone], [group[0].lane for group in together.values()]

    def _take_route(self, job: PlainJob, leader: UUID | None, code: str) -> None:
        route, *left = job.new.fallbacks
        names = ("request", "lane", "batch_key", "fingerprint", "seedless_fingerprint", "price")
        new = replace(job.new, fallbacks=tuple(left), **{name: getattr(route, name) for name in names})
        tag = self._start_tag(new)
        job.rank, job.tag = tag + job.rank - job.tag, tag
        job.been.add(job.lane)
        job.new, job.leader, job.joinable, job.error = new, leader, False, code
        job.cache = CacheOutcome.MISS if leader is None else CacheOutcome.JOINED
        job.reserved = new.price if leader is None else NOTHING
        job.state, job.token, job.worker, job.cancel_requested = JobState.QUEUED, None, None, False
        job.allowed, job.rescues = job.attempts + new.max_attempts, 0
        self._tell(job)

    def _end_now(self, job: PlainJob, state: JobState, error: str | None = None) -> list[str]:
        followers, token, worker = self._followers(job), job.token, job.worker
        self._move([job], state, error=error)
        return self._succeed(job, token, worker, followers) if followers else []

    def _succeed(
        self, leader: PlainJob, token: int | None, worker: UUID | None, followers: list[PlainJob]
    ) -> list[str]:
        """The first that joined takes the place of a leader that ended; of a render, the first of its file format."""
        attempts = leader.attempts
        alike = [job for job in followers if job.new.request.format == leader.new.request.format]
        if token is not None and not alike:
            token, worker, attempts = None, None, max(attempts - 1, 0)
            self._move(followers, JobState.QUEUED)
        heir = alike[0] if token is not None else followers[0]
        heir.leader, heir.cache, heir.reserved = None, CacheOutcome.MISS, heir.new.price
        heir.rank, heir.tag = min((heir.rank, heir.tag), (leader.rank, leader.tag), key=lambda place: place[0])
        heir.attempts, heir.rescues, heir.token, heir.worker = attempts, leader.rescues, token, worker
        for job in followers:
            if job is not heir:
                job.leader = heir.id
        self._tell(heir)
        return [heir.new.lane] if heir.state is JobState.QUEUED else []

    def _spend(self, leader: PlainJob, outcome: Outcome, gpu: Decimal, code: str | None = None) -> None:
        self._book(leader, leader, outcome, gpu, code)
        leader.gpu_seconds += gpu

    def _book(
        self,
        job: PlainJob,
        lease: PlainJob,
        outcome: Outcome,
        gpu: Decimal,
        code: str | None = None,
        token: int | None = None,
    ) -> None:
        held = token if token is not None else lease.token
        row = PlainUsage(job.attempts, held, outcome, code, job.cache, gpu, job.new.price, job.charged)
        job.usage.append(row)
