"""Many processes at once: nothing happens twice, nothing is lost."""

from __future__ import annotations

import asyncio
from collections import Counter

from jobstore.job import CacheOutcome, JobState
from jobstore.protocol import JobStore
from tests.contract.making import NOTHING, PRICE, claimed, new_job, new_worker, result, sweep

Stores = tuple[JobStore, ...]


async def test_fifty_identical_submits_make_one_render(stores: Stores) -> None:
    """From three processes at once."""
    jobs = await asyncio.gather(*(stores[index % 3].submit(new_job("f")) for index in range(50)))
    caches = Counter(job.cache for job in jobs)
    assert caches == {CacheOutcome.MISS: 1, CacheOutcome.JOINED: 49}
    worker = new_worker()
    lease = await claimed(stores[0], worker)
    await stores[0].finish(lease.token, result(lease))
    ended = [await stores[0].get(job.id) for job in jobs]
    assert {job.state for job in ended} == {JobState.SUCCEEDED}
    assert sum(job.charged for job in ended) == PRICE


async def test_each_job_is_claimed_once(stores: Stores) -> None:
    """Thirty claims for twenty jobs."""
    jobs = {(await stores[0].submit(new_job())).id for _ in range(20)}
    leases = await asyncio.gather(*(stores[index % 3].claim(new_worker(), ["default"]) for index in range(30)))
    assert Counter(lease.job.id for lease in leases if lease is not None) == Counter(jobs)


async def test_two_reapers_take_each_lease_back_once(stores: Stores) -> None:
    """Ten dead jobs, three sweeps at once."""
    for _ in range(10):
        await stores[0].submit(new_job())
        await claimed(stores[0], new_worker())
    swept = await asyncio.gather(*(sweep(store, lease_s=0) for store in stores))
    assert sum(one.rescued for one in swept) == 10


async def test_a_reaper_that_races_a_finish_changes_nothing_afterwards(stores: Stores) -> None:
    """Either the job is finished, or it is queued and the finish is refused."""
    for _ in range(20):
        job = await stores[0].submit(new_job())
        lease = await claimed(stores[0], new_worker())
        settled, swept = await asyncio.gather(stores[1].finish(lease.token, result(lease)), sweep(stores[2], lease_s=0))
        now = await stores[0].get(job.id)
        if settled is not None:
            assert (now.state, now.charged, swept.rescued) == (JobState.SUCCEEDED, PRICE, 0)
        else:
            assert (now.state, now.charged, swept.rescued) == (JobState.QUEUED, NOTHING, 1)
            await stores[0].cancel(job.id)


async def test_a_beating_worker_keeps_its_lease(stores: Stores) -> None:
    """However long the render takes; the silent one loses it."""
    lively, silent = new_worker(), new_worker()
    await stores[0].submit(new_job())
    await stores[0].submit(new_job())
    kept, lost = await claimed(stores[0], lively), await claimed(stores[0], silent)
    rescued = 0
    while not rescued:
        assert [held.token for held in (await stores[0].beat(lively)).held] == [kept.token]
        rescued = (await sweep(stores[1], lease_s=0.2)).rescued
    assert rescued == 1
    assert await stores[0].finish(lost.token, result(lost)) is None
    assert await stores[0].finish(kept.token, result(kept)) is not None


async def test_a_job_that_kills_its_workers_is_dead_after_three(stores: Stores) -> None:
    """Rescues are counted apart from attempts."""
    job = await stores[0].submit(new_job())
    for rescues in (1, 2, 3):
        await claimed(stores[0], new_worker())
        swept = await sweep(stores[0], lease_s=0)
        now = await stores[0].get(job.id)
        assert (now.rescues, swept.dead) == (rescues, int(rescues == 3))
    assert now.error is not None
    assert (now.state, now.error.code, now.charged, now.reserved) == (JobState.DEAD, "worker_lost", NOTHING, NOTHING)


async def test_a_canceled_job_whose_worker_dies_is_canceled(stores: Stores) -> None:
    """Not rendered anew."""
    job = await stores[0].submit(new_job())
    await claimed(stores[0], new_worker())
    await stores[0].cancel(job.id)
    assert (await sweep(stores[0], lease_s=0)).canceled == 1
    assert (await stores[0].get(job.id)).state is JobState.CANCELED


async def test_cancel_races_claim_and_finish(stores: Stores) -> None:
    """Whoever wins, the job has one end and the money agrees with it."""
    for _ in range(20):
        job = await stores[0].submit(new_job())
        worker = new_worker()

        async def work(worker: object = worker) -> None:
            lease = await stores[1].claim(new_worker(), ["default"])
            if lease is not None:
                await stores[1].finish(lease.token, result(lease))

        await asyncio.gather(stores[0].cancel(job.id), work())
        now = await stores[0].get(job.id)
        if now.state is JobState.RUNNING:  # canceled between claim and finish is settled by the finish
            raise AssertionError("the job has no end")
        assert now.charged == (PRICE if now.state is JobState.SUCCEEDED else NOTHING)
        assert now.reserved == NOTHING
        assert [event.kind for event in await stores[0].events(job.id)].count("done") == 1


async def test_cancels_joins_and_finishes_of_one_fingerprint_do_not_deadlock(stores: Stores) -> None:
    """Thirty rounds of everything at once; every job ends, one end each."""

    async def work() -> None:
        lease = await stores[2].claim(new_worker(), ["default"])
        if lease is not None:
            await stores[2].finish(lease.token, result(lease))

    jobs = []
    for round_ in range(30):
        submitted = await asyncio.gather(*(stores[index].submit(new_job(f"f{round_ // 3}")) for index in range(3)))
        jobs += submitted
        await asyncio.gather(
            stores[0].cancel(submitted[0].id), stores[1].cancel(submitted[1].id), work(), sweep(stores[1])
        )
    while (lease := await stores[0].claim(new_worker(), ["default"])) is not None:
        await stores[0].finish(lease.token, result(lease))
    for job in jobs:
        now = await stores[0].get(job.id)
        assert now.state.terminal, now
        assert [event.kind for event in await stores[0].events(job.id)].count("done") == 1


async def test_bells_are_asked_for_once_among_sweepers(stores: Stores) -> None:
    """What was rung for just now is left alone; at an age of 0 each sweep may ring once."""
    for _ in range(5):
        await stores[0].submit(new_job())
    assert (await sweep(stores[0], ring_again_s=60)).ring == ()
    swept = await asyncio.gather(*(sweep(store, ring_again_s=0) for store in stores))
    assert 5 <= sum(len(one.ring) for one in swept) <= 15
    assert (await sweep(stores[0], ring_again_s=60)).ring == ()
