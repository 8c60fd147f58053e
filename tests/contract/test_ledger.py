"""The usage ledger and the balances of keys: each settled attempt once, and money to the last decimal."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest

from jobstore.ids import uuid7
from jobstore.job import CacheOutcome, JobError, JobState, PictureFormat
from jobstore.ledger import Balance, Spent
from jobstore.protocol import JobStore
from jobstore.retention import Ages
from tests.contract.making import (
    NOTHING,
    PRICE,
    claimed,
    failed,
    new_job,
    new_worker,
    pictures,
    rendered,
    result,
    sweep,
)

Stores = tuple[JobStore, ...]
ERROR = JobError(code="render_failed", message="it broke")


def spent(seconds: str) -> Spent:
    """Device time of an attempt."""
    return Spent(gpu_seconds=Decimal(seconds), device="cuda:1")


async def test_every_attempt_leaves_a_row_however_it_ended(store: JobStore) -> None:
    """Its device time is booked, and the job's is the sum; only the success is charged."""
    key_id = uuid7()
    worker = new_worker()
    job = await store.submit(new_job(key_id=key_id))
    first = await claimed(store, worker)
    await store.fail(first.token, ERROR, retry_in_s=0, spent=spent("1.5"))
    second = await claimed(store, worker)
    await store.release(second.token, spent("0.25"))
    third = await claimed(store, worker)
    await sweep(store, lease_s=0)
    fourth = await claimed(store, worker)
    await store.finish(fourth.token, result(fourth))
    rows = await store.usage(job.id)
    assert [(row.outcome, row.token, row.gpu_seconds, row.charged) for row in rows] == [
        ("failed", first.token, Decimal("1.5"), NOTHING),
        ("handed_back", second.token, Decimal("0.25"), NOTHING),
        ("lost", third.token, NOTHING, NOTHING),
        ("succeeded", fourth.token, Decimal("0.5"), PRICE),
    ]
    assert [row.device for row in rows] == ["cuda:1", "cuda:1", "cpu", "cpu"]
    assert rows[0].error_code == "render_failed"
    assert rows[3].error_code is None
    for row in rows:
        assert (row.job_id, row.key_id, row.lane, row.model) == (job.id, key_id, "default", "m")
        assert (row.price, row.currency, row.dimensions, row.worker_id) == (PRICE, "USD", {"team": "a"}, worker.id)
        assert row.cache is CacheOutcome.MISS
    now = await store.get(job.id)
    assert (now.gpu_seconds, now.charged) == (Decimal("2.25"), PRICE)


async def test_failed_dead_and_canceled_attempts_are_booked(store: JobStore) -> None:
    """Uncharged, with what they took."""
    worker = new_worker()
    jobs = [await store.submit(new_job(max_attempts=1)) for _ in range(3)]
    leases = [await claimed(store, worker) for _ in jobs]
    await store.fail(leases[0].token, ERROR, spent=spent("1"))
    await store.fail(leases[1].token, ERROR, retry_in_s=0, spent=spent("2"))
    await store.cancel(jobs[2].id)
    await store.canceled(leases[2].token, spent("3"))
    ends = [await store.get(job.id) for job in jobs]
    assert [job.state for job in ends] == [JobState.FAILED, JobState.DEAD, JobState.CANCELED]
    assert [job.gpu_seconds for job in ends] == [1, 2, 3]
    rows = [row for job in jobs for row in await store.usage(job.id)]
    assert [(row.outcome, row.gpu_seconds, row.charged) for row in rows] == [
        ("failed", Decimal(1), NOTHING),
        ("failed", Decimal(2), NOTHING),
        ("canceled", Decimal(3), NOTHING),
    ]


async def test_a_write_under_an_old_token_books_nothing(store: JobStore) -> None:
    """The attempt was settled as lost when the lease was taken back."""
    job = await store.submit(new_job())
    lease = await claimed(store, new_worker())
    await sweep(store, lease_s=0)
    assert await store.fail(lease.token, ERROR, spent=spent("9")) is None
    assert await store.release(lease.token, spent("9")) is None
    assert await store.canceled(lease.token, spent("9")) is None
    [row] = await store.usage(job.id)
    assert (row.outcome, row.gpu_seconds) == ("lost", NOTHING)


async def test_a_job_that_was_never_started_has_no_row(store: JobStore) -> None:
    """Canceled or late while it waited; nor has an unknown one."""
    job = await store.submit(new_job())
    await store.cancel(job.id)
    assert await store.usage(job.id) == ()
    assert await store.usage(uuid7()) == ()


async def test_joined_jobs_have_rows_that_cost_nothing(store: JobStore) -> None:
    """Under the same token, without device time: that is their leader's."""
    leader, joined = [await store.submit(new_job("f")) for _ in range(2)]
    worker = new_worker()
    lease = await claimed(store, worker)
    await store.fail(lease.token, ERROR, retry_in_s=0, spent=spent("1"))
    lease = await claimed(store, worker)
    await store.finish(lease.token, result(lease))
    assert [row.charged for row in await store.usage(leader.id)] == [NOTHING, PRICE]
    last = (await store.usage(joined.id))[-1]
    assert (last.outcome, last.cache, last.token) == ("succeeded", CacheOutcome.JOINED, lease.token)
    for row in await store.usage(joined.id):
        assert (row.charged, row.gpu_seconds, row.cache) == (NOTHING, NOTHING, CacheOutcome.JOINED)
    now = await store.get(joined.id)
    assert (now.gpu_seconds, now.charged) == (NOTHING, NOTHING)


async def test_an_answer_from_the_cache_has_a_row_without_a_token(store: JobStore) -> None:
    """That tells what was saved."""
    hit = await store.submit(new_job(price=Decimal("0.75")), pictures(uuid7(), 1))
    [row] = await store.usage(hit.id)
    assert (row.token, row.outcome, row.cache) == (None, "succeeded", CacheOutcome.HIT)
    assert (row.price, row.charged, row.gpu_seconds) == (Decimal("0.75"), NOTHING, NOTHING)


async def test_a_worker_that_found_the_picture_charges_nothing(store: JobStore) -> None:
    """Its row has its token."""
    await store.submit(new_job())
    lease = await claimed(store, new_worker())
    await store.finish(lease.token, result(lease, CacheOutcome.HIT))
    [row] = await store.usage(lease.job.id)
    assert (row.token, row.cache, row.charged) == (lease.token, CacheOutcome.HIT, NOTHING)


async def test_tokens_are_unique_among_a_jobs_rows(store: JobStore) -> None:
    """Also where a lease went over to a job that had joined."""
    worker = new_worker()
    leader, heir, third = [await store.submit(new_job("f")) for _ in range(3)]
    first = await claimed(store, worker)
    await store.cancel(leader.id)
    await store.fail(first.token, ERROR, retry_in_s=0, spent=spent("1"))
    second = await claimed(store, worker)
    await store.finish(second.token, result(second))
    assert [row.token for row in await store.usage(heir.id)] == [first.token, second.token]
    for job in (leader, heir, third):
        tokens = [row.token for row in await store.usage(job.id)]
        assert len(tokens) == len(set(tokens))
    charges = [sum(row.charged for row in await store.usage(job.id)) for job in (leader, heir, third)]
    assert charges == [NOTHING, PRICE, NOTHING]


@pytest.mark.usefixtures("archive_at_once")
async def test_a_row_outlives_its_job(store: JobStore) -> None:
    """And so does what a key was charged."""
    key_id = uuid7()
    await store.submit(new_job(key_id=key_id))
    done = await rendered(store, new_worker())
    before = await store.usage(done.id)
    assert (await store.purge(Ages(jobs=0))).jobs == 1
    assert await store.usage(done.id) == before
    assert await store.balance(key_id, "USD") == Balance(charged=PRICE)


async def test_a_balance_follows_the_jobs_of_its_key(store: JobStore) -> None:
    """Reserved at the submit, charged at the end, let go where a job did not succeed."""
    key_id = uuid7()
    worker = new_worker()

    async def balance() -> tuple[Decimal, Decimal]:
        now = await store.balance(key_id, "USD")
        return now.reserved, now.charged

    assert await balance() == (NOTHING, NOTHING)
    for _ in range(3):
        await store.submit(new_job(key_id=key_id))
    assert await balance() == (3 * PRICE, NOTHING)
    await rendered(store, worker)
    assert await balance() == (2 * PRICE, PRICE)
    broken = await failed(store, worker)
    assert await balance() == (PRICE, PRICE)
    lease = await claimed(store, worker)
    await store.fail(lease.token, ERROR, retry_in_s=3600)
    assert await balance() == (PRICE, PRICE)
    await store.cancel(lease.job.id)
    assert await balance() == (NOTHING, PRICE)
    await store.retry(broken.id)
    assert await balance() == (PRICE, PRICE)
    assert (await rendered(store, worker)).id == broken.id
    assert await balance() == (NOTHING, 2 * PRICE)


async def test_hits_and_joins_reserve_nothing(store: JobStore) -> None:
    """Heirs and those that are detached pay their own price."""
    payer, joiner, hitter = uuid7(), uuid7(), uuid7()
    leader = await store.submit(new_job("f", key_id=payer, price=Decimal("0.3")))
    await store.submit(new_job("f", key_id=joiner, price=Decimal("0.4")))
    await store.submit(new_job("f", key_id=joiner, price=Decimal("0.5"), format=PictureFormat.JPEG))
    await store.submit(new_job("g", key_id=hitter), pictures(uuid7(), 1))
    assert await store.balance(joiner, "USD") == Balance()
    assert await store.balance(hitter, "USD") == Balance()
    await store.cancel(leader.id)
    assert await store.balance(payer, "USD") == Balance()
    assert await store.balance(joiner, "USD") == Balance(reserved=Decimal("0.4"))
    await rendered(store, new_worker())
    assert await store.balance(joiner, "USD") == Balance(reserved=Decimal("0.5"), charged=Decimal("0.4"))
    await rendered(store, new_worker())
    assert await store.balance(joiner, "USD") == Balance(charged=Decimal("0.9"))


async def test_dead_and_late_jobs_let_their_price_go(store: JobStore) -> None:
    """Ended by the sweep, with nobody asking."""
    key_id = uuid7()
    await store.submit(new_job(key_id=key_id, deadline_s=-1))
    await store.submit(new_job(key_id=key_id))
    await claimed(store, new_worker())
    assert (await sweep(store, lease_s=0, max_rescues=1)).dead == 1
    assert await store.balance(key_id, "USD") == Balance()


async def test_currencies_and_keys_are_kept_apart(store: JobStore) -> None:
    """Amounts of different ones are never added."""
    one, other = uuid7(), uuid7()
    for key_id, currency in ((one, "USD"), (one, "EUR"), (other, "EUR"), (None, "USD")):
        await store.submit(new_job(key_id=key_id, currency=currency))
    for key_id, currency in ((one, "USD"), (one, "EUR"), (other, "EUR")):
        assert await store.balance(key_id, currency) == Balance(reserved=PRICE)
    assert await store.balance(other, "USD") == Balance()


async def test_amounts_are_exact(store: JobStore) -> None:
    """Nine decimals, whatever their sum; a binary fraction would drift."""
    key_id = uuid7()
    prices = [Decimal("0.1"), Decimal("0.2"), Decimal("0.000000001"), Decimal("99999999.999999999")]
    for price in prices:
        await store.submit(new_job(key_id=key_id, price=price))
    assert (await store.balance(key_id, "USD")).reserved == sum(prices)
    worker = new_worker()
    for _ in prices:
        await rendered(store, worker)
    assert await store.balance(key_id, "USD") == Balance(charged=sum(prices, NOTHING))


async def test_many_at_once_leave_the_balance_exact(stores: Stores) -> None:
    """Thirty jobs of one key, settled by three processes."""
    key_id = uuid7()
    await asyncio.gather(*(stores[index % 3].submit(new_job(key_id=key_id)) for index in range(30)))

    async def work(store: JobStore) -> None:
        while (lease := await store.claim(new_worker(), ["default"])) is not None:
            if lease.token % 3:
                await store.finish(lease.token, result(lease))
            else:
                await store.fail(lease.token, ERROR)

    await asyncio.gather(*(work(store) for store in stores))
    counted = await stores[0].balance(key_id, "USD")
    assert counted.reserved == NOTHING
    assert counted.charged % PRICE == NOTHING
    assert NOTHING < counted.charged < 30 * PRICE
