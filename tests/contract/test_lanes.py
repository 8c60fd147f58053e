"""Lanes: paused and resumed, and what waits in them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest

from jobstore.audit import Actor
from jobstore.ids import uuid7
from jobstore.job import JobState
from jobstore.operating.workers import WorkerReport
from jobstore.protocol import JobStore, Lane
from tests.contract.making import claimed, measure, new_job, new_worker, result, sweep, take

Stores = tuple[JobStore, ...]


async def lane(store: JobStore, name: str = "default") -> Lane:
    """One lane as the store tells it."""
    return {lane.name: lane for lane in await store.lanes()}[name]


async def test_a_paused_lane_gives_out_no_job(stores: Stores) -> None:
    """To no process, nor as a batch mate; submits go on, and so does what runs."""
    worker = new_worker()
    await stores[0].submit(new_job())
    lease = await claimed(stores[0], worker)
    await stores[0].pause_lane("default", "the model is being replaced")
    waiting = await stores[0].submit(new_job(width=128))
    assert (waiting.state, waiting.queue_position) == (JobState.QUEUED, 1)
    assert await stores[1].claim(worker, ["default"]) is None
    assert await stores[1].claim(worker, ["default"], prefer="128") is None
    assert [held.token for held in (await stores[1].beat(worker)).held] == [lease.token]
    settled = await stores[1].finish(lease.token, result(lease))
    assert settled is not None
    assert settled.job.state is JobState.SUCCEEDED


async def test_other_lanes_go_on(store: JobStore) -> None:
    """A worker that serves both takes from the one that is not paused."""
    await store.submit(new_job(lane="a"))
    open_ = await store.submit(new_job(lane="b"))
    await store.pause_lane("a")
    assert await take(store, 1, ["a", "b"]) == [open_.id]
    assert await store.claim(new_worker("a", "b"), ["a", "b"]) is None


async def test_a_resumed_lane_wants_a_bell_for_each_job(store: JobStore) -> None:
    """Those that waited are claimed then, in their order; resuming again changes nothing."""
    jobs = [await store.submit(new_job()) for _ in range(3)]
    await store.submit(new_job(start_at=datetime.now(UTC) + timedelta(hours=1)))
    await store.pause_lane("default")
    assert await store.resume_lane("default") == ("default",) * 3
    assert await store.resume_lane("default") == ()
    assert await store.resume_lane("never seen") == ()
    assert (await lane(store)).paused_at is None
    assert await take(store, 3) == [job.id for job in jobs]


async def test_a_paused_lane_rings_for_nothing(store: JobStore) -> None:
    """Its bells would wake workers in vain."""
    await store.submit(new_job())
    await store.submit(new_job(lane="other"))
    await store.pause_lane("default")
    assert (await sweep(store, ring_again_s=0)).ring == ("other",)


async def test_a_lane_says_why_it_is_paused(store: JobStore) -> None:
    """Also one that never held a job; names come in order."""
    await store.pause_lane("b", "a new driver")
    await store.submit(new_job(lane="a"))
    a, b = await store.lanes()
    assert (a.name, a.paused_at, a.reason) == ("a", None, "")
    assert (b.name, b.reason) == ("b", "a new driver")
    assert b.paused_at is not None
    await store.pause_lane("b", "still the driver")
    assert (await lane(store, "b")).reason == "still the driver"
    await store.resume_lane("b")
    assert (await lane(store, "b")).reason == ""


async def test_a_lane_counts_its_jobs_and_devices(store: JobStore) -> None:
    """Ended jobs are not in it, nor workers of other lanes, nor those that drain."""
    worker = new_worker()
    await store.beat(new_worker("other"))
    await measure(store, worker, step_s=2.5)
    for _ in range(4):
        await store.submit(new_job())
    await store.submit(new_job(start_at=datetime.now(UTC) + timedelta(hours=1)))
    await claimed(store, worker)
    done = await claimed(store, worker)
    await store.finish(done.token, result(done))
    now = await lane(store)
    assert (now.scheduled, now.queued, now.running, now.devices, now.slots) == (1, 2, 1, 1, 0)
    assert now.waiting_s == pytest.approx(20)
    assert now.drain_s == pytest.approx(20)
    assert now.oldest_s >= 0
    assert await store.arriving(3600.0) == {"default": pytest.approx(50 / 3600)}, "five jobs, be they done or for later"
    await store.beat(worker, report=WorkerReport(slots=4))
    assert (await lane(store)).slots == 4
    operator = Actor(name="operator")
    await store.drain_worker(worker.id, operator)
    drained = await lane(store)
    assert (drained.devices, drained.running, drained.drain_s) == (0, 1, None), "what drains starts nothing more"
    await store.resume_worker(worker.id, operator)
    assert (await lane(store)).devices == 1
    await store.leave(worker.id)
    assert (await lane(store)).devices == 0
    assert (await lane(store)).drain_s is None


async def test_a_joined_job_adds_no_waiting_time(store: JobStore) -> None:
    """One render serves both."""
    await measure(store, new_worker(), step_s=2.5)
    await store.submit(new_job("f"))
    await store.submit(new_job("f"))
    assert (await lane(store)).waiting_s == pytest.approx(10)


async def test_a_lane_that_is_empty_is_remembered(store: JobStore) -> None:
    """With nothing in it."""
    job = await store.submit(new_job())
    await store.cancel(job.id)
    now = await lane(store)
    assert (now.scheduled, now.queued, now.running, now.waiting_s, now.oldest_s) == (0, 0, 0, 0, 0)


async def test_the_backlog_tells_who_waits_where(store: JobStore) -> None:
    """By lane, and by API key over all lanes; running and ended jobs are not in it."""
    one, other = uuid7(), uuid7()
    waiting: list[tuple[UUID | None, str]] = [(None, "a"), (one, "a"), (one, "b"), (one, "b"), (other, "b")]
    for key_id, name in waiting:
        await store.submit(new_job(lane=name, key_id=key_id))
    await take(store, 1, ["a"])
    backlog = await store.backlog()
    assert {name: lane.queued for name, lane in backlog.lanes.items() if lane.queued} == {"a": 1, "b": 3}
    told = await lane(store, "b")
    assert backlog.lanes["b"] == msgspec.structs.replace(told, oldest_s=backlog.lanes["b"].oldest_s)
    left = {key_id: count for key_id, count in backlog.keys.items() if count}
    assert left in ({one: 3, other: 1}, {None: 1, one: 2, other: 1})


async def test_pauses_race_with_claims(stores: Stores) -> None:
    """Once the pause is told, nothing more is claimed; what was claimed before is held."""
    worker = new_worker()
    for _ in range(20):
        await stores[0].submit(new_job())
    claims = [asyncio.create_task(stores[index % 2].claim(worker, ["default"])) for index in range(10)]
    await stores[2].pause_lane("default")
    leases = [lease for lease in await asyncio.gather(*claims) if lease is not None]
    assert await stores[1].claim(worker, ["default"]) is None
    assert {held.token for held in (await stores[0].beat(worker)).held} == {lease.token for lease in leases}


async def test_a_lane_that_is_served_is_told_before_its_first_job(store: JobStore) -> None:
    """With the workers that live, by their own leases: one that fell silent is no device any more."""
    await store.beat(new_worker("fresh"))
    await store.beat(msgspec.structs.replace(new_worker("fresh"), lease_s=0.0))
    [lane] = [lane for lane in await store.lanes() if lane.name == "fresh"]
    assert (lane.devices, lane.queued) == (1, 0)
