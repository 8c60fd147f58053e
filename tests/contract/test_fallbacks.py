"""Jobs that go on with another model: when, to where, at what price, and with whom."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from jobstore.errors import QuotaExceededError
from jobstore.ids import uuid7
from jobstore.job import CacheOutcome, JobError, JobState, NewJob, Route
from jobstore.ledger import Balance, Spent
from jobstore.protocol import JobStore, Lease, Worker
from tests.contract.keying import make_key
from tests.contract.making import NOTHING, PRICE, claimed, new_job, new_quota, new_worker, result, sweep

DEAR = Decimal("0.05")
OTHER = "remote"
BROKEN = JobError(code="render_failed", message="it broke")


def route(model: str = "other", lane: str = OTHER, *, wait_s: float = 60.0, **changes: Any) -> Route:
    """A route to another model in another lane, dearer than the first."""
    new = new_job(changes.pop("fingerprint", None), lane=lane, model=model, fallback_for="m", seed=1)
    fields = {"fingerprint": new.fingerprint, "price": DEAR, **changes}
    return Route(
        request=new.request,
        lane=lane,
        batch_key=model,
        seedless_fingerprint=new.seedless_fingerprint,
        wait_s=wait_s,
        **fields,
    )


def with_routes(*routes: Route, **changes: Any) -> NewJob:
    """A new job that may go these ways."""
    return msgspec.structs.replace(new_job(**changes), fallbacks=routes)


async def fail(store: JobStore, lease: Lease, error: JobError = BROKEN, retry_in_s: float | None = None) -> list[str]:
    """Fail a render; the lanes to ring."""
    settled = await store.fail(lease.token, error, retry_in_s, Spent(gpu_seconds=Decimal("0.5"), device="cpu"))
    assert settled is not None
    return list(settled.ring)


async def alive(store: JobStore, *lanes: str) -> Worker:
    """A worker that has given a sign of life."""
    worker = new_worker(*lanes)
    await store.beat(worker)
    return worker


async def test_a_render_that_fails_for_good_goes_to_the_next_route(store: JobStore) -> None:
    """It becomes the other model's job, at that one's price, with fresh attempts; its events tell why."""
    key_id = uuid7()
    job = await store.submit(with_routes(route(), key_id=key_id))
    assert job.fallbacks[0].price == DEAR
    worker = new_worker()
    ring = await fail(store, await claimed(store, worker))
    assert ring == [OTHER]
    sent = await store.get(job.id)
    assert (sent.state, sent.lane, sent.batch_key, sent.request.model) == (JobState.QUEUED, OTHER, "other", "other")
    assert (sent.request.fallback_for, sent.fallbacks, sent.reserved) == ("m", (), DEAR)
    assert sent.warnings == ("sent on from m to other: render_failed",)
    assert await store.balance(key_id, "USD") == Balance(reserved=DEAR)
    told = (await store.events(job.id))[-1].data
    assert {name: told[name] for name in ("state", "reason", "from_model", "to_model", "cause", "price")} == {
        "state": "queued", "reason": "fallback", "from_model": "m", "to_model": "other", "cause": "render_failed",
        "price": "0.05",
    }  # fmt: skip
    assert told["error"]["code"] == "render_failed"
    assert await store.claim(worker, ["default"]) is None
    lease = await claimed(store, new_worker(OTHER), [OTHER])
    settled = await store.finish(lease.token, result(lease))
    assert settled is not None
    done = settled.job
    assert (done.state, done.charged, done.cache, done.error) == (JobState.SUCCEEDED, DEAR, CacheOutcome.MISS, None)
    assert done.warnings == ("sent on from m to other: render_failed", "the prompt was long")
    assert await store.balance(key_id, "USD") == Balance(charged=DEAR)
    rows = await store.usage(job.id)
    assert [(row.model, row.lane, row.outcome, row.price, row.charged) for row in rows] == [
        ("m", "default", "failed", PRICE, NOTHING), ("other", OTHER, "succeeded", DEAR, DEAR),
    ]  # fmt: skip
    assert await store.find_cached(job.fingerprint) is None
    assert await store.find_cached(done.fingerprint) is not None


async def test_retries_come_before_the_next_route(store: JobStore) -> None:
    """Only when all attempts are used up; then the other model has as many."""
    job = await store.submit(with_routes(route(), max_attempts=2))
    worker = new_worker("default", OTHER)
    lanes = ("default", OTHER)
    seen = []
    for _ in range(4):
        lease = await claimed(store, worker, lanes)
        seen.append(lease.job.lane)
        await fail(store, lease, retry_in_s=0)
    assert seen == ["default", "default", OTHER, OTHER]
    assert (await store.get(job.id)).state is JobState.DEAD


async def test_routes_are_taken_in_order_and_each_once(store: JobStore) -> None:
    """Two fallbacks, then the end."""
    job = await store.submit(with_routes(route("b", "lane-b"), route("c", "lane-c", price=NOTHING)))
    lanes = ("default", "lane-b", "lane-c")
    worker = new_worker(*lanes)
    seen = []
    while (lease := await store.claim(worker, lanes)) is not None:
        seen.append((lease.job.request.model, lease.job.reserved))
        await fail(store, lease)
    assert seen == [("m", PRICE), ("b", DEAR), ("c", NOTHING)]
    ended = await store.get(job.id)
    assert (ended.state, ended.reserved, ended.charged) == (JobState.FAILED, NOTHING, NOTHING)


@pytest.mark.parametrize("code", ["invalid_request", "content_filtered", "outputs_unavailable"])
async def test_what_no_model_mends_ends_the_job(store: JobStore, code: str) -> None:
    """The same elsewhere: it fails as it would without a fallback."""
    job = await store.submit(with_routes(route()))
    await fail(store, await claimed(store, new_worker()), JobError(code=code, message=""))
    ended = await store.get(job.id)
    assert (ended.state, ended.lane, len(ended.fallbacks)) == (JobState.FAILED, "default", 1)
    assert not JobError(code="deadline_exceeded", message="").concerns_model


async def test_a_job_that_was_to_be_canceled_goes_nowhere(store: JobStore) -> None:
    """Its client wants no picture, from whomever."""
    job = await store.submit(with_routes(route()))
    lease = await claimed(store, new_worker())
    await store.cancel(job.id)
    await fail(store, lease)
    assert (await store.get(job.id)).state is JobState.FAILED


async def test_a_job_that_kills_its_workers_goes_on_elsewhere(store: JobStore) -> None:
    """Instead of being dead; it counts its rescues anew."""
    job = await store.submit(with_routes(route()))
    await claimed(store, new_worker())
    swept = await sweep(store, lease_s=0, max_rescues=1)
    assert (swept.dead, swept.fallbacks, swept.ring) == (0, ("worker_lost",), (OTHER,))
    sent = await store.get(job.id)
    assert (sent.state, sent.lane, sent.rescues) == (JobState.QUEUED, OTHER, 0)
    assert [row.outcome for row in await store.usage(job.id)] == ["lost"]


async def test_those_that_joined_go_along_where_they_go_the_same_way(store: JobStore) -> None:
    """One render serves them still; another's way is its own, and who has none fails."""
    key_id = uuid7()
    way = route()
    leader = await store.submit(with_routes(way, fingerprint="f", key_id=key_id))
    along = await store.submit(with_routes(way, fingerprint="f", key_id=key_id))
    own = await store.submit(
        with_routes(route("third", "third", price=Decimal("0.01")), fingerprint="f", key_id=key_id)
    )
    without = await store.submit(new_job("f", key_id=key_id))
    ring = await fail(store, await claimed(store, new_worker()))
    assert sorted(ring) == [OTHER, "third"]
    jobs = [await store.get(job.id) for job in (leader, along, own, without)]
    assert [job.state for job in jobs] == [JobState.QUEUED] * 3 + [JobState.FAILED]
    assert [job.leader_id for job in jobs[:3]] == [None, leader.id, None]
    assert [job.cache for job in jobs[:3]] == [CacheOutcome.MISS, CacheOutcome.JOINED, CacheOutcome.MISS]
    assert await store.balance(key_id, "USD") == Balance(reserved=DEAR + Decimal("0.01"))
    lease = await claimed(store, new_worker(OTHER), [OTHER])
    await store.finish(lease.token, result(lease))
    assert [(await store.get(job.id)).state for job in (leader, along)] == [JobState.SUCCEEDED] * 2
    assert (await store.get(along.id)).charged == NOTHING
    assert (await store.get(along.id)).pictures == (await store.get(leader.id)).pictures


async def test_one_that_joined_goes_on_where_the_first_can_not(store: JobStore) -> None:
    """The first has no other way, and fails; the others' goes on for all of them."""
    way = route()
    leader = await store.submit(new_job("f"))
    followers = [await store.submit(with_routes(way, fingerprint="f")) for _ in range(2)]
    await fail(store, await claimed(store, new_worker()))
    assert (await store.get(leader.id)).state is JobState.FAILED
    first, second = [await store.get(job.id) for job in followers]
    assert (first.leader_id, second.leader_id) == (None, first.id)
    assert (first.reserved, second.reserved) == (DEAR, NOTHING)
    await store.cancel(first.id)
    heir = await store.get(second.id)
    assert (heir.leader_id, heir.reserved, heir.state) == (None, DEAR, JobState.QUEUED)


async def test_the_same_model_may_be_in_flight_already(store: JobStore) -> None:
    """A job that comes to a model by a fallback, and one that asked for it, don't get into each other's way."""
    way = route(fingerprint="g")
    await store.submit(with_routes(way))
    await fail(store, await claimed(store, new_worker()))
    direct = await store.submit(new_job("g", lane=OTHER))
    joined = await store.submit(new_job("g", lane=OTHER))
    assert (direct.leader_id, joined.leader_id) == (None, direct.id)


async def test_a_lane_that_is_down_is_left(store: JobStore) -> None:
    """After the wait that the route names, and only for one that somebody serves."""
    job = await store.submit(with_routes(route(wait_s=0.0)))
    assert (await sweep(store)).fallbacks == ()
    await alive(store, OTHER)
    swept = await sweep(store)
    assert (swept.fallbacks, swept.ring) == (("lane_down",), (OTHER,))
    sent = await store.get(job.id)
    assert (sent.state, sent.lane, sent.attempts, sent.reserved) == (JobState.QUEUED, OTHER, 0, DEAR)
    told = (await store.events(job.id))[-1].data
    assert (told["cause"], told["from_model"], "error" in told) == ("lane_down", "m", False)


async def test_a_lane_that_is_full_is_left(store: JobStore) -> None:
    """What runs goes on; what waits too long is sent on, and nothing before its time."""
    running = await store.submit(with_routes(route(wait_s=0.0)))
    await claimed(store, await alive(store, "default"))
    await alive(store, OTHER)
    waiting = await store.submit(with_routes(route(wait_s=0.0)))
    patient = await store.submit(with_routes(route(wait_s=3600.0)))
    assert (await sweep(store)).fallbacks == ("lane_full",)
    lanes = [(await store.get(job.id)).lane for job in (running, waiting, patient)]
    assert lanes == ["default", OTHER, "default"]


async def test_a_route_that_nobody_serves_is_passed_over(store: JobStore) -> None:
    """So is one in the same lane; a paused lane keeps its jobs, and gets none."""
    here, there = route("near", "default", wait_s=0.0), route("far", "far", wait_s=0.0)
    job = await store.submit(with_routes(here, there))
    await alive(store, "default", "far")
    await store.pause_lane("far")
    assert (await sweep(store)).fallbacks == ()
    await store.pause_lane("default")
    await store.resume_lane("far")
    assert (await sweep(store)).fallbacks == ()
    await store.resume_lane("default")
    assert (await sweep(store)).fallbacks == ("lane_full",)
    sent = await store.get(job.id)
    assert (sent.lane, sent.fallbacks) == ("far", ())


async def test_sweepers_send_each_job_on_once(stores: tuple[JobStore, ...]) -> None:
    """However many look at once; the next route has a patience of its own."""
    ways = (route("b", "lane-b", wait_s=0.0), route("c", "lane-c", wait_s=3600.0))
    jobs = [await stores[0].submit(with_routes(*ways)) for _ in range(40)]
    await alive(stores[0], "lane-b", "lane-c")
    swept = await asyncio.gather(*(sweep(store) for store in stores * 2))
    assert sum(len(answer.fallbacks) for answer in swept) == len(jobs)
    for job in jobs:
        assert (await stores[0].get(job.id)).lane == "lane-b"
        told = [event.data.get("reason") for event in await stores[0].events(job.id)]
        assert told == [None, "fallback"]


async def test_a_sweep_takes_those_along_that_joined(store: JobStore) -> None:
    """Who would go another way waits by itself."""
    way = route(wait_s=0.0)
    leader = await store.submit(with_routes(way, fingerprint="f"))
    along = await store.submit(with_routes(way, fingerprint="f"))
    alone = await store.submit(new_job("f"))
    await alive(store, OTHER)
    swept = await sweep(store)
    assert (len(swept.fallbacks), sorted(swept.ring)) == (1, ["default", OTHER])
    assert (await store.get(along.id)).leader_id == leader.id
    left = await store.get(alone.id)
    assert (left.lane, left.leader_id, left.reserved) == ("default", None, PRICE)


async def test_a_job_that_was_sent_on_stands_at_the_end_of_the_lane(store: JobStore) -> None:
    """Behind what its key has there, and it may be redriven like any other."""
    first = await store.submit(new_job(lane=OTHER))
    sent = await store.submit(with_routes(route()))
    await fail(store, await claimed(store, new_worker()))
    worker = new_worker(OTHER)
    leases = [await claimed(store, worker, [OTHER]) for _ in range(2)]
    assert [lease.job.id for lease in leases] == [first.id, sent.id]
    await fail(store, leases[1])
    assert (await store.get(sent.id)).state is JobState.FAILED
    again = (await store.retry(sent.id)).job
    assert (again.state, again.lane, again.reserved) == (JobState.QUEUED, OTHER, DEAR)


async def test_a_budget_holds_the_dearest_route(store: JobStore) -> None:
    """From the submit on; what was rendered is spent, whoever rendered it."""
    await store.create_quota(new_quota(most=DEAR))
    new = msgspec.structs.replace(with_routes(route(price=NOTHING), route("c", "lane-c")), team="ads")
    job = await store.submit(new)
    held = [(status.held, status.used) for status in await store.quotas()]
    assert held == [(DEAR, NOTHING)]
    with pytest.raises(QuotaExceededError):
        await store.submit(msgspec.structs.replace(new_job(), team="ads"))
    await fail(store, await claimed(store, new_worker()))
    assert [(status.held, status.used) for status in await store.quotas()] == held
    lanes = (OTHER, "lane-c")
    await fail(store, await claimed(store, new_worker(*lanes), lanes))
    lease = await claimed(store, new_worker(*lanes), lanes)
    await store.finish(lease.token, result(lease))
    assert (await store.get(job.id)).charged == DEAR
    assert [(status.held, status.used) for status in await store.quotas()] == [(NOTHING, DEAR)]


async def test_warnings_of_the_submit_stay(store: JobStore) -> None:
    """Before the render's own."""
    job = await store.submit(msgspec.structs.replace(new_job(), warnings=("no route",)))
    assert job.warnings == ("no route",)
    lease = await claimed(store, new_worker())
    settled = await store.finish(lease.token, result(lease))
    assert settled is not None
    assert settled.job.warnings == ("no route", "the prompt was long")


async def test_a_key_that_lost_a_model_does_not_get_it_by_a_fallback(store: JobStore) -> None:
    """Neither when a render fails, nor when a lane is down: the next route that it may take is taken, or none."""
    await make_key(store, "narrow", models=("m", "spare"))
    [key] = await store.list_keys()
    ways = (route("secret"), route("spare", "spare"))
    job = await store.submit(with_routes(*ways, key_id=key.id))
    worker = new_worker()
    assert await fail(store, await claimed(store, worker)) == ["spare"]
    assert (await store.get(job.id)).request.model == "spare"
    stuck = await store.submit(with_routes(route("secret", wait_s=0.0), key_id=key.id, lane="down"))
    await alive(store, OTHER)
    assert (await sweep(store)).fallbacks == ()
    assert (await store.get(stuck.id)).lane == "down"
    failing = await store.submit(with_routes(route("secret"), key_id=key.id))
    assert await fail(store, await claimed(store, worker)) == []
    assert (await store.get(failing.id)).state is JobState.FAILED
