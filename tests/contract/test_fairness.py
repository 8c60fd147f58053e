"""A lane is shared between API keys by weight; priority moves a job forward by a quantum, and nobody starves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import pytest

from jobstore.ids import uuid7
from jobstore.protocol import JobStore
from tests.contract.making import claimed, measure, new_job, new_worker, sweep, take

STEPS = 4  # of each job that new_job makes
QUANTUM_S = 60.0


async def submit(store: JobStore, keys: Iterable[UUID | None], count: int, **fields: Any) -> None:
    """So many jobs of each key, one key after the other."""
    for key_id in keys:
        for _ in range(count):
            await store.submit(new_job(key_id=key_id, **fields))


async def keys_claimed(store: JobStore, count: int) -> list[UUID | None]:
    """Whose jobs the next claims take."""
    worker = new_worker()
    return [(await claimed(store, worker)).job.key_id for _ in range(count)]


@pytest.mark.parametrize("claims_before", [0, 7])
@pytest.mark.parametrize("backlogged", [1, 3])
async def test_a_single_job_waits_for_one_job_of_each_backlogged_key(
    store: JobStore, backlogged: int, claims_before: int
) -> None:
    """However many they have queued, and however long they have been at it."""
    await submit(store, [uuid7() for _ in range(backlogged)], 20)
    await sweep(store)
    await take(store, claims_before)
    single = uuid7()
    await submit(store, [single], 1)
    assert single in await keys_claimed(store, backlogged + 1)


async def test_a_hundred_thousandth_job_is_not_before_anothers_first(store: JobStore) -> None:
    """Each of many newcomers is served in turn, whatever one key has queued."""
    greedy = uuid7()
    await submit(store, [greedy], 60)
    newcomers = [uuid7() for _ in range(5)]
    await submit(store, newcomers, 1)
    assert set(newcomers) <= set(await keys_claimed(store, len(newcomers) + 1))


async def test_backlogged_keys_take_turns(store: JobStore) -> None:
    """After any number of claims none is more than a job ahead of another."""
    keys = [uuid7() for _ in range(3)]
    await submit(store, keys, 10)
    taken: Counter[UUID | None] = Counter()
    for key_id in await keys_claimed(store, 30):
        taken[key_id] += 1
        left = [key for key in keys if taken[key] < 10]
        shares = [taken[key] for key in left]
        assert not shares or max(shares) - min(shares) <= 1, taken


async def test_jobs_without_a_key_are_one_tenants(store: JobStore) -> None:
    """A key's single job waits for one of them."""
    key_id = uuid7()
    await submit(store, [None], 10)
    await submit(store, [key_id], 3)
    taken = await keys_claimed(store, 6)
    assert taken.count(key_id) == 3


async def test_one_keys_jobs_start_in_the_order_of_their_submit(store: JobStore) -> None:
    """Whatever goes on between them."""
    one, other = uuid7(), uuid7()
    mine = []
    for _ in range(6):
        mine.append((await store.submit(new_job(key_id=one))).id)
        await submit(store, [other], 2)
        await take(store, 1)
    worker = new_worker()
    order = []
    while (lease := await store.claim(worker, ["default"])) is not None:
        order.append(lease.job.id)
    assert [job for job in order if job in mine] == [job for job in mine if job in order]


@pytest.mark.parametrize("weight", [2.0, 3.0, 0.5])
async def test_a_weight_is_a_share(store: JobStore, weight: float) -> None:
    """A key of weight 3 gets three jobs for each one of a key of weight 1."""
    heavy, light = uuid7(), uuid7()
    await submit(store, [light], 24)
    await submit(store, [heavy], 24, weight=weight)
    taken = Counter(await keys_claimed(store, 20))
    assert abs(taken[heavy] - 20 * weight / (1 + weight)) <= 2, taken


async def test_a_share_is_counted_in_device_time(store: JobStore) -> None:
    """Jobs that take four times as long come a fourth as often."""
    await measure(store, new_worker(), step_s=1)
    long, short = uuid7(), uuid7()
    for _ in range(10):
        await store.submit(new_job(key_id=long, steps=40))
    for _ in range(40):
        await store.submit(new_job(key_id=short, steps=10))
    taken = Counter(await keys_claimed(store, 25))
    assert 18 <= taken[short] <= 22, taken


async def test_a_key_that_was_idle_gets_no_credit(store: JobStore) -> None:
    """From its return on it has its share, and nothing for the time before."""
    busy, idle = uuid7(), uuid7()
    await submit(store, [idle], 1)
    await submit(store, [busy], 60)
    await take(store, 31)
    await submit(store, [idle], 20)
    taken = Counter(await keys_claimed(store, 12))
    assert abs(taken[idle] - taken[busy]) <= 2, taken


async def test_a_key_that_comes_and_goes_shares_with_one_that_waits(store: JobStore) -> None:
    """It submits one job whenever it has none, beside one that has many queued: they take turns."""
    busy, polite = uuid7(), uuid7()
    await submit(store, [busy], 40)
    taken: Counter[UUID | None] = Counter()
    for _ in range(30):
        if (await store.backlog()).keys.get(polite, 0) == 0:
            await submit(store, [polite], 1)
        taken.update(await keys_claimed(store, 1))
        await sweep(store)
    assert abs(taken[busy] - taken[polite]) <= 2, taken


async def test_a_lane_that_has_run_for_long_does_not_starve_beside_a_new_one(store: JobStore) -> None:
    """A worker that serves both takes from both, whatever their clocks say."""
    for _ in range(40):
        await store.submit(new_job(lane="old", steps=100))
    await take(store, 30, ["old"])
    for _ in range(20):
        await store.submit(new_job(lane="new", steps=100))
    assert await _starts_within(store, "old", 20)
    assert await _starts_within(store, "new", 20)


@pytest.mark.parametrize("keys", [1, 5])
async def test_a_lane_of_long_jobs_does_not_starve_beside_one_of_short_ones(store: JobStore, keys: int) -> None:
    """However many are submitted there, and by how many keys."""
    await submit(store, [None], 2, lane="long", steps=400)
    await take(store, 1, ["long"])
    quick = [uuid7() for _ in range(keys)]
    await submit(store, quick, 10, lane="short")
    for _ in range(60):
        await submit(store, quick[:1], 1, lane="short")
        if await _starts_within(store, "long", 1):
            return
    raise AssertionError("the long job was never started")


@pytest.mark.parametrize("joined", [False, True])
async def test_lanes_take_turns(store: JobStore, joined: bool) -> None:
    """Also where their jobs are such that others joined."""
    for lane in ("long", "short"):
        for number in range(3):
            for _ in range(1 + joined):
                await store.submit(new_job(f"{lane} {number}", lane=lane))
    assert await _starts_within(store, "long", 1)
    assert await _starts_within(store, "short", 1)
    assert await _starts_within(store, "long", 1)


async def _starts_within(store: JobStore, lane: str, count: int) -> bool:
    """True when a worker of both lanes takes one of the lane's jobs in so many claims."""
    worker = new_worker("old", "new", "long", "short")
    for _ in range(count):
        if (await claimed(store, worker, worker.lanes)).job.lane == lane:
            return True
    return False


@pytest.mark.parametrize(("priority", "place"), [(5, 5), (6, 4), (7, 3), (4, 5)])
async def test_a_step_of_priority_is_a_quantum(store: JobStore, priority: int, place: int) -> None:
    """A job goes before those that rank less than so many quanta before it, and no others."""
    await measure(store, new_worker(), step_s=0.75 * QUANTUM_S / STEPS)
    jobs = [(await store.submit(new_job())).id for _ in range(5)]
    moved = await store.submit(new_job(priority=priority))
    assert moved.queue_position == place + 1
    last = await store.submit(new_job())
    order = await take(store, 7)
    assert order.index(moved.id) == (place + 1 if priority < 5 else place)
    assert [job for job in order if job != moved.id] == [*jobs, last.id]


async def test_the_last_priority_starves_under_the_first_from_one_key(store: JobStore) -> None:
    """It does not: each job of high priority ranks behind the one before it."""
    assert await _rounds_until_the_lowest_is_claimed(store, [uuid7()] * 200) < 200


@pytest.mark.parametrize("joined", [False, True])
async def test_the_last_priority_does_not_starve_under_the_first_from_ever_fresh_keys(
    store: JobStore, joined: bool
) -> None:
    """Each of which has nothing queued before: the lane's time goes on with every claim."""
    assert await _rounds_until_the_lowest_is_claimed(store, [uuid7() for _ in range(200)], joined=joined) < 200


async def _rounds_until_the_lowest_is_claimed(store: JobStore, keys: Sequence[UUID], *, joined: bool = False) -> int:
    """How many jobs of priority 9 are claimed, one a round, before the one of priority 0 that waits."""
    worker = new_worker()
    await measure(store, worker, step_s=QUANTUM_S / STEPS)
    low = await store.submit(new_job(priority=0, key_id=uuid7()))
    for _ in range(2):
        await store.submit(new_job(priority=9, key_id=uuid7()))
    for done, key_id in enumerate(keys):
        for _ in range(1 + joined):
            await store.submit(new_job(f"f{done}", priority=9, key_id=key_id))
        if done % 10 == 0:
            await sweep(store)
        if (await claimed(store, worker)).job.id == low.id:
            return done
    return len(keys)


async def test_mates_jump_over_none_that_waits_for_longer_than_the_bound(store: JobStore) -> None:
    """A stream of mates of an open batch passes an other job a few times, then it is started."""
    worker = new_worker()
    await measure(store, worker, step_s=10 / STEPS)
    other = await store.submit(new_job(width=128, height=64))
    passed = 0
    for _ in range(50):
        await store.submit(new_job(width=64))
        await store.submit(new_job(width=64))
        lease = await store.claim(worker, ["default"], prefer="64")
        assert lease is not None
        if lease.job.id == other.id:
            break
        passed += 1
    assert passed < 20


async def test_a_mate_is_taken_from_the_heads_lane_alone(store: JobStore) -> None:
    """Though another lane that the worker serves has one."""
    worker = new_worker("a", "b")
    head = await store.submit(new_job(lane="a", width=64))
    await store.submit(new_job(lane="b", width=128))
    lease = await store.claim(worker, ["a"], prefer="128")
    assert lease is not None
    assert lease.job.id == head.id
