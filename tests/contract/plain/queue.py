"""The order in which the plain store starts jobs."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from jobstore.job import JobState, NewJob, Picture
from tests.contract.plain.job import PlainJob, PlainLane

MATES_BOUND_S = 30.0
ADVANCE_BOUND_S = 540.0


class PlainQueue:
    """Jobs, and the lanes in which they wait."""

    def __init__(self) -> None:
        """Empty."""
        self.jobs: dict[UUID, PlainJob] = {}
        self.lanes: dict[str, PlainLane] = {}
        self.cached: dict[str, tuple[Picture, ...]] = {}
        self.replays: dict[tuple[UUID | None, str], tuple[str, UUID]] = {}
        self.tokens = 0
        self.moments = 0

    def position(self, job: PlainJob) -> int | None:
        """The place in the queue, from 1; that of its leader for a job that joined."""
        if job.state is not JobState.QUEUED:
            return None
        stands = job if job.leader is None else self.jobs[job.leader]
        return 1 + sum((other.rank, other.seq) < (stands.rank, stands.seq) for other in self._queue(stands.new.lane))

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

    def _moment(self) -> int:
        self.moments += 1
        return self.moments
