"""Jobs that no bell tells of: a worker with a free slot finds them, whatever the broker does."""

from __future__ import annotations

from jobstore.job import JobState
from tests.actors.harness import Darkroom


async def test_jobs_are_found_without_a_bell(darkroom: Darkroom) -> None:
    """One look finds the first, and it finds the others; as many at once as there are slots."""
    darkroom.progress.hold()
    await darkroom.start(look_s=0.1, slots=2)
    jobs = [await darkroom.submit(ring=False, seed=seed) for seed in range(4)]
    for job in jobs[:2]:
        await darkroom.wait(job.id, JobState.RUNNING)
    assert [(await darkroom.store.get(job.id)).state for job in jobs[2:]] == [JobState.QUEUED] * 2
    darkroom.progress.let_go()
    for job in jobs:
        assert (await darkroom.wait(job.id)).state is JobState.SUCCEEDED


async def test_a_job_found_so_is_handed_back_at_a_stop(darkroom: Darkroom) -> None:
    """The stop waits for it as for any other."""
    darkroom.progress.hold()
    await darkroom.start(look_s=0.1, slots=1)
    job = await darkroom.submit(ring=False, steps=8)
    await darkroom.reached()
    darkroom.progress.let_go()
    await darkroom.stop(grace_s=0.0)
    after = await darkroom.store.get(job.id)
    assert (after.state, after.attempts) in ((JobState.QUEUED, 0), (JobState.SUCCEEDED, 1))
    assert not await darkroom.store.workers(60)
