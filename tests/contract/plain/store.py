"""What clients, workers and the sweeper may ask of the plain store."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from uuid import UUID

from jobstore.job import CacheMode, CacheOutcome, JobState, NewJob, Picture
from jobstore.ledger import Balance
from tests.contract.plain.job import NOTHING, PlainJob, Refused
from tests.contract.plain.moves import PlainMoves


class PlainStore(PlainMoves):
    """The store."""

    # What is asked

    def balance(self, key_id: UUID) -> Balance:
        """A balance is the sum over the key's jobs, and nothing else."""
        mine = [job for job in self.jobs.values() if job.new.key_id == key_id]
        return Balance(
            reserved=sum((job.reserved for job in mine), NOTHING), charged=sum((job.charged for job in mine), NOTHING)
        )

    def leases(self) -> list[int]:
        """The tokens under which jobs are held."""
        return sorted(job.token for job in self.jobs.values() if job.token is not None)

    def held(self, worker: UUID) -> set[tuple[int, UUID, bool]]:
        """The leases of a worker: token, job, and whether it is to be canceled."""
        holds = [job for job in self.jobs.values() if job.worker == worker and job.token is not None]
        return {(job.token, job.id, job.cancel_requested) for job in holds if job.token is not None}

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
