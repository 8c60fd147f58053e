"""The limits of the queue: what counts, what is refused, and when the store is asked."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast
from uuid import UUID, uuid4

import msgspec
import pytest

from api.backpressure import Backpressure
from jobstore.job import CacheOutcome, Job, JobRequest, JobState, NewJob
from jobstore.protocol import Backlog, JobStore, Lane
from safelight.config import LimitSettings

NOTHING = Backlog(lanes={}, keys={})
LIMITS = LimitSettings(max_queued=20, max_queued_per_lane=10, max_queued_per_key=5)


class Counting:
    """A store that knows its backlog, and how often it was asked."""

    def __init__(self, backlog: Backlog = NOTHING) -> None:
        self.answer: Backlog | Exception = backlog
        self.asked = 0
        self.took_s = 0.0
        self.now = 1000.0
        self.gate = asyncio.Event()
        self.gate.set()

    async def backlog(self) -> Backlog:
        """The answer, once the gate is open."""
        self.asked += 1
        await self.gate.wait()
        self.now += self.took_s
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def clock(self) -> float:
        """The time, which only tests move."""
        return self.now


def made(store: Counting, limits: LimitSettings = LIMITS) -> Backpressure:
    """Backpressure over ``store``."""
    return Backpressure(cast(JobStore, store), limits, store.clock)


def new_job(lane: str = "default", key_id: UUID | None = None) -> NewJob:
    """A job that wants a place."""
    request = JobRequest(model="m", prompt="x", width=64, height=64, steps=1, seed=1)
    return NewJob(
        id=uuid4(), request=request, lane=lane, batch_key="b", fingerprint="f", seedless_fingerprint="s",
        price=Decimal(0), currency="USD", key_id=key_id,
    )  # fmt: skip


def job_of(new: NewJob, state: JobState = JobState.QUEUED, cache: CacheOutcome = CacheOutcome.MISS) -> Job:
    """What the store made of it."""
    shared: dict[str, Any] = {
        name: getattr(new, name)
        for name in ("id", "request", "lane", "batch_key", "fingerprint", "seedless_fingerprint", "key_id", "currency")
    }
    return Job(state=state, cache=cache, created_at=datetime.now(UTC), **shared)


def submitted(pressure: Backpressure, new: NewJob, **became: Any) -> None:
    """``new`` was written."""
    with pressure.room(new) as room:
        room.took(job_of(new, **became))


async def settle() -> None:
    """Let tasks that can run do so."""
    for _ in range(10):
        await asyncio.sleep(0)


def backlog(queued: int, *, waiting_s: float = 0.0, devices: int = 0, **more: Any) -> Backlog:
    """``queued`` jobs in the default lane, all of clients without a key."""
    lane = Lane(name="default", queued=queued, waiting_s=waiting_s, devices=devices, **more)
    return Backlog(lanes={"default": lane}, keys={None: queued})


async def test_each_limit_is_named_when_it_is_reached() -> None:
    """The largest first; a place is free up to the limit and not beyond."""
    key, other = uuid4(), uuid4()
    store = Counting(
        Backlog(lanes={"a": Lane(name="a", queued=4, scheduled=5), "b": Lane(name="b", queued=9)}, keys={key: 5})
    )
    pressure = made(store)
    await pressure.refresh()
    assert await pressure.is_full(new_job("b", key))
    assert "for this API key" in pressure.refusal(new_job("b", key)).detail
    assert "(max_queued_per_key)" in pressure.refusal(new_job("b", key)).detail
    assert not await pressure.is_full(new_job("b", other))
    submitted(pressure, new_job("b", other))
    assert await pressure.is_full(new_job("b", other))
    assert "10 jobs wait in the lane b" in pressure.refusal(new_job("b", other)).detail
    assert not await pressure.is_full(new_job("a", other))
    submitted(pressure, new_job("a", other))
    assert await pressure.is_full(new_job("c", other))
    refusal = pressure.refusal(new_job("c", other))
    assert refusal.detail.startswith("20 jobs wait, and no more are taken (max_queued);")
    assert (refusal.status_code, refusal.code) == (429, "queue_full")


async def test_only_what_waits_takes_a_place() -> None:
    """Be it for later or for another's render; no hit, and no submit that failed or was a repeat."""
    pressure = made(Counting())
    await pressure.refresh()
    for _ in range(9):
        submitted(pressure, new_job(), state=JobState.SUCCEEDED, cache=CacheOutcome.HIT)
        submitted(pressure, new_job(), state=JobState.RUNNING, cache=CacheOutcome.JOINED)
        with pytest.raises(ConnectionError), pressure.room(new_job()):
            raise ConnectionError
        with pressure.room(new_job()):
            pass
    assert not await pressure.is_full(new_job())
    for state, cache in (
        (JobState.QUEUED, CacheOutcome.MISS),
        (JobState.SCHEDULED, CacheOutcome.MISS),
        *[(JobState.QUEUED, CacheOutcome.JOINED)] * 3,
    ):
        assert not await pressure.is_full(new_job())
        submitted(pressure, new_job(), state=state, cache=cache)
    assert await pressure.is_full(new_job())


async def test_submits_under_way_hold_their_places() -> None:
    """Else many at once would all find the last place free."""
    pressure = made(Counting(backlog(4)))
    await pressure.refresh()
    assert not await pressure.is_full(new_job())
    with pressure.room(new_job()):
        assert await pressure.is_full(new_job())
    assert not await pressure.is_full(new_job())


async def test_snapshots_are_taken_beside_and_seldom() -> None:
    """Not before a second, nor before twenty times what the last one took."""
    store = Counting()
    pressure = made(store)
    await pressure.refresh()
    for moved, asked in ((0.0, 1), (0.9, 1), (0.2, 2), (0.5, 2), (0.6, 3)):
        store.now += moved
        for _ in range(3):
            assert not await pressure.is_full(new_job())
        await settle()
        assert store.asked == asked
    store.took_s = 2.0
    store.now += 1.1
    pressure.nudge()
    await settle()
    store.now += 39.0
    pressure.nudge()
    await settle()
    assert store.asked == 4
    store.now += 1.5
    pressure.nudge()
    await settle()
    assert store.asked == 5


async def test_what_was_queued_while_the_store_counted_stays_counted() -> None:
    """The snapshot may have missed it. What was queued before is in it."""
    store = Counting()
    pressure = made(store)
    await pressure.refresh()
    submitted(pressure, new_job())
    submitted(pressure, new_job())
    store.gate.clear()
    store.now += 2
    pressure.nudge()
    await settle()
    submitted(pressure, new_job())
    submitted(pressure, new_job())
    assert not await pressure.is_full(new_job())  # four of five
    store.answer = backlog(2)
    store.gate.set()
    await settle()
    assert not await pressure.is_full(new_job())
    submitted(pressure, new_job())
    assert await pressure.is_full(new_job())


async def test_an_old_snapshot_refuses_nobody() -> None:
    """Who comes back after a while finds the queue as it is by then."""
    store = Counting(backlog(5))
    pressure = made(store)
    await pressure.refresh()
    assert await pressure.is_full(new_job())
    assert store.asked == 1
    store.answer = backlog(0)
    store.now += 60
    assert not await pressure.is_full(new_job())
    assert store.asked == 2


async def test_a_store_that_cannot_be_asked_leaves_what_is_known() -> None:
    """This process's own submits count on."""
    store = Counting(backlog(3))
    pressure = made(store)
    await pressure.refresh()
    submitted(pressure, new_job())
    store.answer = ConnectionError()
    await pressure.refresh()
    assert not await pressure.is_full(new_job())
    submitted(pressure, new_job())
    assert await pressure.is_full(new_job())


async def test_retry_after_follows_the_drain_time() -> None:
    """Seconds until enough has been started, whole, from 1 to 120; 30 where nothing is started."""
    told = []
    for known in (
        backlog(5, waiting_s=50.0, devices=1),  # a start every ten seconds
        backlog(8, waiting_s=80.0, devices=2),  # every five, and four must start
        backlog(5, waiting_s=0.5, devices=1),
        backlog(5, waiting_s=5000.0, devices=1),
        backlog(5, waiting_s=50.0),
        backlog(5, waiting_s=50.0, devices=1, paused_at=datetime.now(UTC)),
    ):
        pressure = made(Counting(known))
        await pressure.refresh()
        headers = pressure.refusal(new_job()).headers or {}
        assert headers["x-should-retry"] == "true"
        told.append(headers["Retry-After"])
    assert told == ["10", "20", "1", "120", "30", "30"]


async def test_all_lanes_together_drain_the_whole_queue() -> None:
    """The limit in all is not one lane's."""
    lanes = {
        name: Lane(name=name, queued=10, waiting_s=waiting_s, devices=1)
        for name, waiting_s in (("a", 20.0), ("b", 5.0))
    }
    pressure = made(Counting(Backlog(lanes=lanes, keys={})))
    await pressure.refresh()
    headers = pressure.refusal(new_job("c")).headers or {}
    assert headers["Retry-After"] == "1"


async def test_a_paused_lane_is_known_from_the_snapshot() -> None:
    """And a look at it has the next one taken."""
    store = Counting(backlog(1, paused_at=datetime.now(UTC)))
    pressure = made(store)
    assert not pressure.is_paused("default")
    await settle()
    assert pressure.is_paused("default")
    assert not pressure.is_paused("other")


async def test_a_refresh_is_begun_after_the_call() -> None:
    """One that was under way may have seen what is no more."""
    store = Counting()
    pressure = made(store)
    store.gate.clear()
    pressure.nudge()
    waiting = [asyncio.create_task(pressure.refresh()) for _ in range(3)]
    await settle()
    store.gate.set()
    await asyncio.gather(*waiting)
    assert store.asked == 2


async def test_closing_ends_a_snapshot() -> None:
    """Nothing waits for a store that doesn't answer."""
    store = Counting()
    pressure = made(store)
    store.gate.clear()
    pressure.nudge()
    await settle()
    await pressure.close()
    await settle()
    await pressure.close()


def test_limits_are_those_of_the_settings() -> None:
    """By default more than any test queues."""
    assert msgspec.structs.asdict(LimitSettings()) == {
        "max_queued": 100_000, "max_queued_per_lane": 50_000, "max_queued_per_key": 10_000,
    }  # fmt: skip
