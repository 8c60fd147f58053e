"""The latest progress of every running job that this process heard of."""

from __future__ import annotations

from collections import OrderedDict
from uuid import UUID

from jobstore.job import Job, JobState
from jobstore.live import Progress

_MAX_JOBS = 10_000


class LiveProgress:
    """Remembers the furthest progress a job, the most recent ``_MAX_JOBS`` jobs; for the event loop's thread alone.

    Progress never falls within an attempt. A later attempt starts anew, and an earlier one's late messages are
    ignored from then on. A job that is back in the queue has none.
    """

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._latest: OrderedDict[UUID, Progress] = OrderedDict()

    def note(self, progress: Progress) -> None:
        """Keep ``progress`` unless the job was further already."""
        known = self._latest.get(progress.job_id)
        if known is None or furthest(progress) > furthest(known):
            self._latest[progress.job_id] = progress
        self._latest.move_to_end(progress.job_id)
        while len(self._latest) > _MAX_JOBS:
            self._latest.popitem(last=False)

    def of(self, job: Job) -> Progress | None:
        """The job's progress, or that of the job whose render it waits for; None before the first step."""
        if job.state in (JobState.QUEUED, JobState.SCHEDULED):
            self._latest.pop(job.id, None)
            return None
        found = [self._latest[known] for known in (job.id, job.leader_id or job.id) if known in self._latest]
        return max(found, key=furthest, default=None)


def furthest(progress: Progress) -> tuple[int, float]:
    """What progress is compared by: first the attempt, then how far it is."""
    return progress.attempt, progress.fraction
