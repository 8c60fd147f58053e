"""A job's way from the bell to its pictures."""

from __future__ import annotations

import hashlib
from decimal import Decimal

from jobstore.job import CacheOutcome, JobState, PictureFormat
from jobstore.pictures import decode, read_infotext
from tests.actors.harness import Darkroom


async def test_bell_brings_a_picture(darkroom: Darkroom) -> None:
    """The picture lies under the lease's key, is what the row says, and was charged for."""
    await darkroom.start()
    job = await darkroom.wait((await darkroom.submit(prompt="ō 😄 飞翔", n=2, seed=5)).id)
    assert job.state is JobState.SUCCEEDED
    assert [picture.seed for picture in job.pictures] == [5, 6]
    assert job.charged == Decimal("0.01")
    assert job.gpu_seconds > 0
    for picture in job.pictures:
        data = await darkroom.outputs.get(picture.key)
        assert hashlib.sha256(data).hexdigest() == picture.sha256
        assert decode(data).size == (64, 64)
        assert read_infotext(data).startswith("ō 😄 飞翔\nSteps: 3, Sampler: FlowMatchEulerDiscrete, CFG scale: 0, ")


async def test_progress_carries_the_jobs_id(darkroom: Darkroom) -> None:
    """Every step once, never complete before the pictures are there."""
    await darkroom.start()
    job = await darkroom.wait((await darkroom.submit()).id)
    assert [progress.step for progress in darkroom.progress.told] == [1, 2, 3]
    assert {progress.job_id for progress in darkroom.progress.told} == {job.id}
    assert max(progress.fraction for progress in darkroom.progress.told) < 1


async def test_lost_bell_is_rung_again(darkroom: Darkroom) -> None:
    """The sweeper rings for a job that nobody rang for."""
    await darkroom.start(ring_again_s=0.2)
    job = await darkroom.submit(ring=False)
    assert (await darkroom.wait(job.id)).state is JobState.SUCCEEDED


async def test_doubled_bell_costs_nothing(darkroom: Darkroom) -> None:
    """One render, one attempt, one charge; the bells left over find nothing."""
    await darkroom.start()
    job = await darkroom.submit(ring=False)
    darkroom.ring(times=4)
    done = await darkroom.wait(job.id)
    await darkroom.stop()
    assert (done.attempts, done.charged) == (1, Decimal("0.01"))
    assert len(darkroom.progress.told) == 3


async def test_every_slot_takes_a_job(darkroom: Darkroom) -> None:
    """With two slots two of three jobs run, the third waits."""
    await darkroom.start(slots=2)
    darkroom.progress.hold()
    jobs = [await darkroom.submit(seed=seed) for seed in (1, 2, 3)]
    await darkroom.reached()
    await darkroom.wait(jobs[1].id, JobState.RUNNING)
    assert (await darkroom.store.get(jobs[2].id)).state is JobState.QUEUED
    darkroom.progress.let_go()
    assert [(await darkroom.wait(job.id)).state for job in jobs] == [JobState.SUCCEEDED] * 3


async def test_picture_found_at_the_claim(darkroom: Darkroom) -> None:
    """It was rendered while the job waited: a hit, free of charge, and the same file."""
    await darkroom.start()
    first = await darkroom.wait((await darkroom.submit()).id)
    second = await darkroom.wait((await darkroom.submit()).id)
    assert (second.cache, second.charged) == (CacheOutcome.HIT, Decimal(0))
    assert second.pictures[0].key == first.pictures[0].key
    assert len(darkroom.progress.told) == 3


async def test_picture_found_in_another_format(darkroom: Darkroom) -> None:
    """It is transcoded, its parameters with it, and lies under the job's own key."""
    await darkroom.start()
    first = await darkroom.wait((await darkroom.submit()).id)
    second = await darkroom.wait((await darkroom.submit(format=PictureFormat.WEBP)).id)
    assert second.cache is CacheOutcome.HIT
    [picture] = second.pictures
    assert (picture.media_type, str(second.id) in picture.key) == ("image/webp", True)
    texts = [read_infotext(await darkroom.outputs.get(job.pictures[0].key)) for job in (first, second)]
    assert texts[0] == texts[1]


async def test_purged_picture_is_rendered_anew(darkroom: Darkroom) -> None:
    """The cache's entry is dropped, and the new one stands for the next job."""
    await darkroom.start()
    first = await darkroom.wait((await darkroom.submit()).id)
    await darkroom.outputs.delete([first.pictures[0].key])
    second = await darkroom.wait((await darkroom.submit()).id)
    assert second.cache is CacheOutcome.MISS
    third = await darkroom.wait((await darkroom.submit()).id)
    assert (third.cache, third.pictures[0].key) == (CacheOutcome.HIT, second.pictures[0].key)
