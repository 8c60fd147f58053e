"""What happens to jobs of the plain store and to those that joined them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from uuid import UUID

from msgspec.structs import replace

from jobstore.job import CacheOutcome, JobError, JobState
from jobstore.ledger import Outcome
from jobstore.states import TRANSITIONS
from tests.contract.plain.job import NOTHING, PlainJob, PlainUsage
from tests.contract.plain.queue import PlainQueue


class PlainMoves(PlainQueue):
    """Transitions, heirs, fallbacks, and the ledger."""

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
