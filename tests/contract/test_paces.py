"""What workers measured decides how long later jobs are expected to take, and when they may start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jobstore.protocol import JobStore, Pace
from tests.contract.keying import TESTER
from tests.contract.making import claimed, measure, new_job, new_worker


async def test_a_job_is_expected_to_take_what_was_measured(store: JobStore) -> None:
    """Steps times images times the seconds of a step; a job keeps what was expected when it came in."""
    before = await store.submit(new_job())
    assert before.expected_s > 0
    await measure(store, new_worker(), step_s=0.5)
    job = await store.submit(new_job(steps=10, n=3))
    assert job.expected_s == pytest.approx(15)
    assert (await store.get(job.id)).expected_s == job.expected_s
    assert (await store.get(before.id)).expected_s == before.expected_s


async def test_paces_are_told_by_model_size_and_device(store: JobStore) -> None:
    """Each as it was measured first."""
    worker = new_worker()
    paces = [
        Pace(model="m", width=64, height=64, device="cpu", step_s=0.5),
        Pace(model="m", width=64, height=128, device="cpu", step_s=1.5),
        Pace(model="m", width=64, height=64, device="cuda:0", step_s=0.01),
        Pace(model="other", width=64, height=64, device="cpu", step_s=2.0),
    ]
    assert await store.paces() == ()
    await store.beat(worker, paces[:3])
    await store.beat(worker, paces[3:])
    await store.beat(worker)

    def order(pace: Pace) -> tuple[str, int, int, str]:
        return pace.model, pace.width, pace.height, pace.device

    assert sorted(await store.paces(), key=order) == sorted(paces, key=order)


async def test_a_pace_follows_what_is_measured(store: JobStore) -> None:
    """One slow render does not overthrow it, and many do."""
    worker = new_worker()
    await measure(store, worker, step_s=1)
    await measure(store, worker, step_s=3)
    [pace] = await store.paces()
    assert 1 <= pace.step_s <= 3
    for _ in range(100):
        await measure(store, worker, step_s=3)
    [pace] = await store.paces()
    assert pace.step_s == pytest.approx(3, rel=0.05)


async def test_a_queued_job_is_told_when_it_may_start(store: JobStore) -> None:
    """The device time of what stands before it, shared by the devices that live."""
    worker = new_worker()
    await measure(store, worker, step_s=5)
    jobs = [await store.submit(new_job()) for _ in range(3)]
    etas = [(await store.get(job.id)).eta_s for job in jobs]
    assert etas == [pytest.approx(0), pytest.approx(20), pytest.approx(40)]
    assert jobs[2].eta_s == pytest.approx(40)
    await store.beat(new_worker())
    await store.beat(new_worker("other"))
    assert (await store.get(jobs[2].id)).eta_s == pytest.approx(20)


async def test_a_worker_that_drains_brings_no_start_nearer(store: JobStore) -> None:
    """It takes no further job: where it is the only one, no start is in sight until it is resumed."""
    worker = new_worker()
    await store.beat(worker)
    job = await store.submit(new_job())
    assert job.eta_s is not None
    await store.drain_worker(worker.id, TESTER)
    assert (await store.get(job.id)).eta_s is None
    assert (await store.submit(new_job())).eta_s is None
    await store.resume_worker(worker.id, TESTER)
    assert (await store.get(job.id)).eta_s is not None


async def test_only_queued_jobs_of_a_served_lane_have_a_start_in_sight(store: JobStore) -> None:
    """No worker, no estimate; nor is there one for scheduled and running jobs."""
    assert (await store.submit(new_job())).eta_s is None
    worker = new_worker()
    running = await claimed(store, worker)
    assert running.job.eta_s is None
    assert (await store.get(running.job.id)).eta_s is None
    later = await store.submit(new_job(start_at=datetime.now(UTC) + timedelta(hours=1)))
    assert later.eta_s is None
    assert (await store.submit(new_job())).eta_s is not None
    assert (await store.submit(new_job(lane="nobody's"))).eta_s is None


async def test_a_joined_job_starts_with_its_leader(store: JobStore) -> None:
    """It has that one's place."""
    await measure(store, new_worker(), step_s=5)
    await store.submit(new_job())
    leader, joined = [await store.submit(new_job("f")) for _ in range(2)]
    assert joined.eta_s == leader.eta_s == pytest.approx(20)
