"""On its last chance a job has the process to itself."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from uuid import uuid4

import pytest

from actors.solitude import Solitude
from jobstore.job import CacheOutcome, Job, JobState
from jobstore.protocol import Worker
from tests.actors.harness import Darkroom, new_job


def job(rescues: int) -> Job:
    """A running job that was rescued so many times."""
    new = new_job("default")
    return Job(
        id=uuid4(),
        state=JobState.RUNNING,
        request=new.request,
        lane=new.lane,
        batch_key=new.batch_key,
        fingerprint=new.fingerprint,
        seedless_fingerprint=new.seedless_fingerprint,
        cache=CacheOutcome.MISS,
        currency="USD",
        reserved=Decimal("0.01"),
        rescues=rescues,
        created_at=datetime.now(UTC),
    )


async def test_a_job_on_its_last_chance_waits_for_the_others_and_keeps_new_ones_out() -> None:
    """It begins when they have left; what was claimed meanwhile is handed back; claims go on when it has ended."""
    solitude = Solitude(max_rescues=3)
    leave, claimed, begun, end = (asyncio.Event() for _ in range(4))

    async def other() -> None:
        async with solitude.turn(), solitude.of(job(rescues=1)) as admitted:
            assert admitted
            await leave.wait()

    async def late() -> None:
        async with solitude.turn():
            await claimed.wait()
            async with solitude.of(job(rescues=0)) as admitted:
                assert not admitted

    async def suspect() -> None:
        async with solitude.turn(), solitude.of(job(rescues=2)) as admitted:
            assert admitted
            begun.set()
            await end.wait()

    others = [asyncio.create_task(work()) for work in (other, other, late)]
    suspected = asyncio.create_task(suspect())
    await asyncio.sleep(0)
    waiting = asyncio.create_task(solitude.turn().__aenter__())
    leave.set()
    await asyncio.gather(*others[:2])
    assert not begun.is_set()
    claimed.set()
    await others[2]
    await begun.wait()
    assert not waiting.done()
    end.set()
    await asyncio.gather(suspected, waiting)


@pytest.mark.parametrize(("max_rescues", "rescues"), [(1, 0), (2, 0), (3, 1), (10, 8)])
async def test_others_are_rendered_side_by_side(max_rescues: int, rescues: int) -> None:
    """A rescue or two is no reason to be alone, unless the next one is the end."""
    solitude = Solitude(max_rescues)
    other = solitude.of(job(rescues))
    async with solitude.turn(), solitude.of(job(rescues)) as first, solitude.turn(), other as second:
        assert first
        assert second


async def test_a_suspect_that_is_given_up_lets_the_others_in() -> None:
    """Even while it still waits to be alone."""
    solitude = Solitude(max_rescues=3)

    async def suspect() -> None:
        async with solitude.turn(), solitude.of(job(rescues=2)):
            pytest.fail("it was never alone")

    async with solitude.turn():
        suspected = asyncio.create_task(suspect())
        await asyncio.sleep(0)
        suspected.cancel()
        await asyncio.gather(suspected, return_exceptions=True)
        async with solitude.turn():
            pass


async def test_a_worker_renders_suspects_one_after_the_other(darkroom: Darkroom) -> None:
    """All are done, and none is lost between claim and turn."""
    jobs = [await darkroom.submit(seed=seed, ring=False) for seed in range(1, 7)]
    for _ in range(2):
        await lose_all(darkroom)
    await darkroom.start(slots=3)
    darkroom.ring(times=6)
    ended = [await darkroom.wait(job.id) for job in jobs]
    assert {job.state for job in ended} == {JobState.SUCCEEDED}
    assert {(job.rescues, job.attempts) for job in ended} == {(2, 1)}


async def lose_all(darkroom: Darkroom) -> None:
    """A worker claims everything and dies."""
    dead = Worker(id=uuid4(), host="dead", pid=1, device="cpu", lanes=(darkroom.lane,))
    while await darkroom.store.claim(dead, [darkroom.lane]):
        pass
    await darkroom.store.sweep(lease_s=0, ring_again_s=60, max_rescues=3)
