"""Quotas: nobody takes more than they allow, whatever happens to jobs, over any number of processes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from jobstore.errors import QuotaExceededError, QuotaNotFoundError, QuotaTakenError
from jobstore.ids import uuid7
from jobstore.job import Job, JobError, JobState, NewJob, Replay
from jobstore.operating.jobs import JobFilter
from jobstore.protocol import Finish, JobStore
from jobstore.quotas import QuotaStatus
from jobstore.retention import Ages
from tests.contract.making import (
    NOTHING,
    claimed,
    failed,
    new_job,
    new_quota,
    new_worker,
    pictures,
    rendered,
    result,
    sweep,
)

DIME = Decimal("0.10")


def job(team: str = "ads", **fields: Any) -> NewJob:
    """A job of the team for ten cents."""
    return new_job(team=team, **({"price": DIME} | fields))


async def standing(store: JobStore, team: str = "ads") -> list[tuple[Decimal, Decimal]]:
    """What the team's quotas hold and have used up."""
    return [(status.held, status.used) for status in await store.quotas([("team", team)])]


async def submit_all(stores: Sequence[JobStore], jobs: Sequence[NewJob]) -> tuple[list[Job], list[QuotaExceededError]]:
    """Submit at once over all stores; what was taken, and what was refused."""
    answers = await asyncio.gather(
        *(stores[index % len(stores)].submit(new) for index, new in enumerate(jobs)), return_exceptions=True
    )
    refused = [answer for answer in answers if isinstance(answer, QuotaExceededError)]
    taken = [answer for answer in answers if isinstance(answer, Job)]
    assert len(refused) + len(taken) == len(jobs), answers
    return taken, refused


async def test_many_submits_at_once_spend_no_cent_too_much(stores: tuple[JobStore, ...]) -> None:
    """A dollar is ten dimes, however many processes hand them out; the refused ones leave nothing."""
    await stores[0].create_quota(new_quota(most=1))
    taken, refused = await submit_all(stores, [job() for _ in range(60)])
    assert (len(taken), len(refused)) == (10, 50)
    assert await standing(stores[0]) == [(Decimal(1), NOTHING)]
    assert refused[0].room_at is None
    assert refused[0].status.left == 0
    worker = new_worker()
    for _ in range(10):
        await rendered(stores[1], worker)
    assert await stores[1].claim(worker, ["default"]) is None
    assert await standing(stores[2]) == [(NOTHING, Decimal(1))]


async def test_key_team_and_customer_each_have_a_say(store: JobStore) -> None:
    """The narrowest refuses, and then nothing is booked with the others."""
    key_id = uuid7()
    await store.create_quota(new_quota(str(key_id), 5, owner_kind="key"))
    await store.create_quota(new_quota("ads", 1))
    await store.create_quota(new_quota("acme", Decimal("0.3"), owner_kind="customer"))
    new = [job(key_id=key_id, customer="acme") for _ in range(4)]
    for each in new[:3]:
        await store.submit(each)
    with pytest.raises(QuotaExceededError) as refused:
        await store.submit(new[3])
    assert refused.value.status.quota.owner == "acme"
    assert {status.held for status in await store.quotas()} == {Decimal("0.3")}
    await store.submit(job(team="others"))
    await store.submit(job(key_id=key_id, customer="else"))
    assert [status.held for status in await store.quotas()] == [Decimal("0.4"), Decimal("0.4"), Decimal("0.3")]


async def test_what_is_not_charged_is_there_again(store: JobStore) -> None:
    """After failure, cancel and expiry nothing is held, and the whole budget can be spent."""
    await store.create_quota(new_quota(most=DIME))
    worker = new_worker()
    await store.submit(job())
    await failed(store, worker)
    assert await standing(store) == [(NOTHING, NOTHING)]
    await store.cancel((await store.submit(job())).id)
    assert await standing(store) == [(NOTHING, NOTHING)]
    late = await store.submit(job(deadline_s=0.0))
    await sweep(store)
    assert (await store.get(late.id)).state is JobState.FAILED
    assert await standing(store) == [(NOTHING, NOTHING)]
    await store.submit(job())
    await rendered(store, worker)
    assert await standing(store) == [(NOTHING, DIME)]
    with pytest.raises(QuotaExceededError):
        await store.submit(job())


async def test_who_joins_holds_until_it_is_known_to_cost_nothing(store: JobStore) -> None:
    """It may have to render for itself yet; what is found in the cache holds nothing."""
    await store.create_quota(new_quota(most=Decimal("0.2")))
    await store.create_quota(new_quota(most=2, kind="concurrency"))
    await store.submit(job(fingerprint="f"))
    await store.submit(job(fingerprint="f"))
    assert await standing(store) == [(Decimal("0.2"), NOTHING), (Decimal(2), NOTHING)]
    with pytest.raises(QuotaExceededError):
        await store.submit(job(fingerprint="f"))
    await rendered(store, new_worker())
    assert await standing(store) == [(NOTHING, DIME), (NOTHING, NOTHING)]
    new = job()
    await store.submit(new, pictures(new.id, 0))
    assert await standing(store) == [(NOTHING, DIME), (NOTHING, NOTHING)]


async def test_a_leader_that_leaves_takes_only_its_own(store: JobStore) -> None:
    """The job that takes its place has held its own price all along."""
    await store.create_quota(new_quota(most=1))
    leader = await store.submit(job(fingerprint="f"))
    await store.submit(job(fingerprint="f", price=Decimal("0.25")))
    await store.cancel(leader.id)
    assert await standing(store) == [(Decimal("0.25"), NOTHING)]
    await rendered(store, new_worker())
    assert await standing(store) == [(NOTHING, Decimal("0.25"))]


async def test_a_repeat_counts_once(store: JobStore) -> None:
    """The job of an idempotency key is submitted once, and answered even when nothing is left."""
    await store.create_quota(new_quota(most=1, kind="requests", period="1d"))
    replay = Replay(key="k", body_sha256="b")
    first = await store.submit(job(replay=replay))
    assert (await store.submit(job(replay=replay))).id == first.id
    with pytest.raises(QuotaExceededError):
        await store.submit(job(replay=Replay(key="l", body_sha256="b")))
    assert await standing(store) == [(NOTHING, Decimal(1))]
    # The refused one left its key free.
    await store.change_quota((await store.quotas())[0].quota.id, Decimal(2))
    assert (await store.submit(job(replay=Replay(key="l", body_sha256="b")))).id != first.id


async def test_who_submits_is_told_how_its_quotas_stand(store: JobStore) -> None:
    """With what was booked, of all that bind it, whatever becomes of the job; who reads the job later is not."""
    key_id = uuid7()
    assert (await store.submit(job(key_id=key_id))).quotas == ()
    await store.create_quota(new_quota(most=1))
    await store.create_quota(new_quota(str(key_id), 9, "requests", owner_kind="key", period="1d"))
    await store.create_quota(new_quota("ops", 5))
    replay = Replay(key="k", body_sha256="b")
    first = await store.submit(job(key_id=key_id, fingerprint="f", replay=replay))
    joined = await store.submit(job(key_id=key_id, fingerprint="f"))
    found = job(key_id=key_id)
    hit = await store.submit(found, pictures(found.id, 0))
    for taken, left in ((first, ("0.9", "8")), (joined, ("0.8", "7")), (hit, ("0.8", "6"))):
        assert {status.left for status in taken.quotas} == {Decimal(amount) for amount in left}
    assert sorted(hit.quotas, key=str) == sorted(await store.quotas([("team", "ads"), ("key", str(key_id))]), key=str)
    assert (await store.get(first.id)).quotas == ()
    repeated = await store.submit(job(key_id=key_id, fingerprint="f", replay=replay))
    assert (repeated.id, repeated.quotas) == (first.id, ())


async def test_those_that_are_taken_together_hear_what_they_leave(stores: tuple[JobStore, ...]) -> None:
    """Nobody is told that there is more than there is, and the last one hears of nothing left."""
    await stores[0].create_quota(new_quota(most=20, kind="concurrency"))
    taken, _ = await submit_all(stores, [job(team="ads" if index % 2 else "ops") for index in range(40)])
    left = [[status.left for status in one.quotas] for one in taken if one.team == "ads"]
    assert min(left) == [0]
    assert all(amount <= 19 for amounts in left for amount in amounts)
    assert all(one.quotas == () for one in taken if one.team == "ops")


async def test_submits_and_jobs_at_once_are_counted_exactly(stores: tuple[JobStore, ...]) -> None:
    """Over all processes; a rate says when to come again, one on jobs at once can't."""
    await stores[0].create_quota(new_quota("fast", 7, "requests", period="1h", rolling=True))
    await stores[0].create_quota(new_quota("wide", 5, "concurrency"))
    taken, refused = await submit_all(stores, [job("fast") for _ in range(20)])
    assert len(taken) == 7
    assert all(error.room_at is not None for error in refused)
    taken, refused = await submit_all(stores, [job("wide") for _ in range(20)])
    assert len(taken) == 5
    assert all(error.room_at is None for error in refused)
    await stores[1].cancel(taken[0].id)
    await stores[1].cancel(taken[0].id)
    taken, _ = await submit_all(stores, [job("wide") for _ in range(4)])
    assert len(taken) == 1


async def test_none_and_nothing_are_not_the_same(store: JobStore) -> None:
    """Without a quota all goes; with one of 0 only what costs nothing. Another currency is not concerned."""
    await store.submit(job())
    quota = await store.create_quota(new_quota(most=0))
    with pytest.raises(QuotaExceededError):
        await store.submit(job())
    await store.submit(job(price=NOTHING))
    await store.submit(job(currency="EUR"))
    assert await store.delete_quota(quota.id)
    assert not await store.delete_quota(quota.id)
    await store.submit(job())
    assert await store.quotas() == ()


async def test_a_quota_that_goes_while_jobs_hold_it(store: JobStore) -> None:
    """They end as if it had never been; a new one begins at nothing."""
    quota = await store.create_quota(new_quota(most=1))
    await store.submit(job())
    await store.delete_quota(quota.id)
    await store.create_quota(new_quota(most=1))
    await rendered(store, new_worker())
    assert await standing(store) == [(NOTHING, NOTHING)]


async def test_a_quota_can_be_changed_and_there_is_one_of_a_kind(store: JobStore) -> None:
    """Lowered below what is taken, it refuses; nothing that was taken is taken back."""
    quota = await store.create_quota(new_quota(most=1))
    with pytest.raises(QuotaTakenError):
        await store.create_quota(new_quota(most=2))
    await store.create_quota(new_quota(most=2, period="1d"))
    await store.submit(job())
    assert (await store.change_quota(quota.id, Decimal("0.05"))).most == Decimal("0.05")
    [status, _] = await store.quotas()
    assert (status.held, status.left) == (DIME, NOTHING)
    with pytest.raises(QuotaExceededError):
        await store.submit(job())
    with pytest.raises(QuotaNotFoundError):
        await store.change_quota(uuid7(), Decimal(1))


async def test_dead_letters_come_back_as_far_as_there_is_room(store: JobStore) -> None:
    """A retry is refused, a redrive leaves what is beyond; submits are not counted again."""
    await store.create_quota(new_quota(most=Decimal("0.3")))
    await store.create_quota(new_quota(most=4, kind="requests", period="1d"))
    worker = new_worker()
    letters = []
    for _ in range(3):
        await store.submit(job())
        letters.append(await failed(store, worker))
    await store.submit(job(price=Decimal("0.15")))
    redriven = await store.redrive(JobFilter())
    assert len(redriven.job_ids) == 1
    left = next(letter for letter in letters if letter.id not in redriven.job_ids)
    with pytest.raises(QuotaExceededError):
        await store.retry(left.id)
    assert (await store.get(left.id)).state is JobState.FAILED
    assert await standing(store) == [(Decimal("0.25"), NOTHING), (NOTHING, Decimal(4))]
    while await store.claim(worker, ["default"]):
        pass
    for held in (await store.beat(worker)).held:
        await store.fail(held.token, JobError(code="render_failed", message="x"))
    await store.retry(left.id)
    assert await standing(store) == [(DIME, NOTHING), (NOTHING, Decimal(4))]


async def test_windows_that_are_over_are_forgotten(store: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for what unfinished jobs hold in them: that is let go of when they end."""
    await store.create_quota(new_quota(most=1, period="1d"))
    await store.create_quota(new_quota(most=9, kind="requests", period="1d"))
    held = await store.submit(job())
    await store.purge(Ages())
    assert await standing(store) == [(DIME, NOTHING), (NOTHING, Decimal(1))]
    with monkeypatch.context() as later:
        for room in ("postgres", "sqlite"):
            later.setattr(f"jobstore.{room}.quotas.counted_since", lambda quota, now: now)
        await store.purge(Ages())
    assert await standing(store) == [(DIME, NOTHING), (NOTHING, NOTHING)]
    await store.cancel(held.id)
    assert await standing(store) == [(NOTHING, NOTHING), (NOTHING, NOTHING)]


@pytest.mark.parametrize("joined", [False, True])
async def test_device_time_is_charged_up_to_the_price(store: JobStore, *, joined: bool) -> None:
    """Half a second at 216 an hour is three cents; at a million an hour it is the price. Rounded once, half up."""
    await store.create_quota(new_quota(most=1))
    worker = new_worker()
    for rate, charged in (
        (Decimal(216), Decimal("0.03")),
        (Decimal(10**6), DIME),
        (Decimal("2.5"), Decimal("0.000347222")),
    ):
        first = await store.submit(job(fingerprint="f", rate=rate))
        if joined:
            await store.submit(job(fingerprint="f"))
        lease = await claimed(store, worker)
        found: Finish = result(lease)
        await store.finish(lease.token, found)
        assert (await store.get(first.id)).charged == charged
    assert await standing(store) == [(NOTHING, Decimal("0.130347222"))]


def test_a_status_says_what_is_left() -> None:
    """Never less than nothing."""
    quota = new_quota(most=1)
    assert QuotaStatus(quota=quota, held=DIME, used=DIME, ends_at=None).left == Decimal("0.8")
    assert QuotaStatus(quota=quota, held=DIME, used=Decimal(1), ends_at=None).left == 0
    assert quota.label == "1 USD for the team ads"


async def test_many_dead_letters_come_back_at_once(store: JobStore) -> None:
    """All in one slice of one quota."""
    await store.create_quota(new_quota(most=1))
    worker = new_worker()
    for _ in range(3):
        await store.submit(job())
        await failed(store, worker)
    assert len((await store.redrive(JobFilter())).job_ids) == 3
    assert await standing(store) == [(Decimal("0.3"), NOTHING)]
