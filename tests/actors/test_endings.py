"""Cancels, deadlines, stops: how a render ends before its pictures are there."""

from __future__ import annotations

import asyncio
from decimal import Decimal

from jobstore.job import CacheOutcome, JobState
from tests.actors.harness import Darkroom


async def test_cancel_of_a_running_job(darkroom: Darkroom) -> None:
    """It stops between steps; nothing is charged, the next job is served."""
    await darkroom.start()
    darkroom.progress.hold()
    job = await darkroom.submit(steps=150)
    await darkroom.reached()
    await darkroom.store.cancel(job.id)
    darkroom.progress.let_go()
    done = await darkroom.wait(job.id)
    assert (done.state, done.charged) == (JobState.CANCELED, Decimal(0))
    assert len(darkroom.progress.told) < 150
    assert (await darkroom.wait((await darkroom.submit(seed=2)).id)).state is JobState.SUCCEEDED


async def test_lease_passes_on_when_the_leader_is_canceled(darkroom: Darkroom) -> None:
    """The render goes on for the job that had joined, under its id and at its cost."""
    await darkroom.start()
    darkroom.progress.hold()
    leader = await darkroom.submit(steps=20)
    await darkroom.reached()
    follower = await darkroom.submit(steps=20, ring=False)
    assert follower.cache is CacheOutcome.JOINED
    await darkroom.store.cancel(leader.id)
    darkroom.progress.let_go()
    done = await darkroom.wait(follower.id)
    assert (done.state, done.charged, done.attempts) == (JobState.SUCCEEDED, Decimal("0.01"), 1)
    canceled = await darkroom.store.get(leader.id)
    assert (canceled.state, canceled.charged) == (JobState.CANCELED, Decimal(0))
    assert [progress.step for progress in darkroom.progress.told] == list(range(1, 21))


async def test_deadline_is_not_kept_waiting_by_the_device(darkroom: Darkroom) -> None:
    """The job fails while the device call still blocks."""
    await darkroom.start()
    darkroom.progress.hold()
    job = await darkroom.submit(deadline_s=1.0)
    await darkroom.reached()
    done = await darkroom.wait(job.id)
    assert done.state is JobState.FAILED
    assert done.error is not None
    assert done.error.code == "deadline_exceeded"
    darkroom.progress.let_go()
    assert (await darkroom.wait((await darkroom.submit(seed=2)).id)).state is JobState.SUCCEEDED


async def test_stop_finishes_what_fits_into_its_grace(darkroom: Darkroom) -> None:
    """The running job gets its picture, the waiting one stays queued."""
    await darkroom.start(slots=1)
    darkroom.progress.hold()
    running, waiting = await darkroom.submit(seed=1), await darkroom.submit(seed=2)
    await darkroom.reached()
    stopping = asyncio.create_task(darkroom.stop(grace_s=30))
    darkroom.progress.let_go()
    await stopping
    assert (await darkroom.store.get(running.id)).state is JobState.SUCCEEDED
    left = await darkroom.store.get(waiting.id)
    assert (left.state, left.attempts) == (JobState.QUEUED, 0)


async def test_stop_hands_back_the_rest_and_the_next_worker_takes_it(darkroom: Darkroom) -> None:
    """No attempt is counted; a worker that finds itself alone rings at once for what it finds."""
    await darkroom.start()
    darkroom.progress.hold()
    job = await darkroom.submit(steps=60)
    await darkroom.reached()
    stopping = asyncio.create_task(darkroom.stop(grace_s=0.05))
    await darkroom.wait(job.id, JobState.RUNNING)
    darkroom.progress.let_go()
    await stopping
    left = await darkroom.store.get(job.id)
    assert (left.state, left.attempts, left.rescues) == (JobState.QUEUED, 0, 0)
    await darkroom.start(embedded=True)
    done = await darkroom.wait(job.id)
    assert (done.state, done.attempts) == (JobState.SUCCEEDED, 1)


async def test_stop_does_not_wait_for_a_device_that_hangs(darkroom: Darkroom) -> None:
    """The job is handed back although no step boundary comes."""
    await darkroom.start()
    darkroom.progress.hold()
    job = await darkroom.submit()
    await darkroom.reached()
    await darkroom.stop(grace_s=0.05)
    assert (await darkroom.store.get(job.id)).state is JobState.QUEUED
