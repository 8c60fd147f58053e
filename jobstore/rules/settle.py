"""Fenced writes: whatever a worker says of a job counts only under the token that the job is held by."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal

from jobstore.job import CacheMode, CacheOutcome, JobError, JobState
from jobstore.ledger import NOTHING_SPENT, Outcome, Spent
from jobstore.protocol import Finish, Settled
from jobstore.rules.moves import detach, followers_of, give_back, move, write
from jobstore.rules.reroute import send_on
from jobstore.rules.rows import Row, Rows, job_of, to_job

_SMALLEST = Decimal("1e-9")
_HOUR_S = 3600
_CLOCKS_S = 1.0  # by how much a worker's idea of a deadline may be early


async def finish(rows: Rows, token: int, result: Finish) -> Settled | None:
    """The job has its pictures, and so have those that joined."""
    leader = await rows.lock_held(token)
    if leader is None:
        return None
    followers = await followers_of(rows, leader)
    alike = [row for row in followers if _answered(row, leader, result)]
    spent = Spent(gpu_seconds=result.gpu_seconds, device=result.device, batch_rows=result.batch_rows)
    [done] = await _give(rows, [leader], result, spent, result.cache)
    joined = await _give(rows, alike, result, Spent(device=result.device), CacheOutcome.JOINED)
    await rows.add_pictures([job["id"] for job in (done, *joined)], result.pictures)
    await rows.add_usage(
        [
            usage_of(leader, done, "succeeded", spent),
            *(usage_of(leader, job, "succeeded", Spent(device=result.device)) for job in joined),
        ]
    )
    if remembered(leader, result):
        await rows.remember(leader, result.pictures)
    others = [row for row in followers if row not in alike]
    ring = await detach(rows, others, reason="another file format")
    return Settled(job=to_job(done, result.pictures), ring=ring)


def _answered(follower: Row, leader: Row, result: Finish) -> bool:
    """True when the leader's pictures are what a job that joined asked for, to the seed and the file format."""
    if follower["format"] != leader["format"]:
        return False
    # What the leader found in the cache may be another seed's, if it takes any.
    seed = leader["request"]["seed"]
    other = result.cache is CacheOutcome.HIT and any(picture.seed != seed for picture in result.pictures[:1])
    return not other or CacheMode(follower["request"]["cache"]) is CacheMode.ANY


async def _give(rows: Rows, jobs: Sequence[Row], result: Finish, spent: Spent, cache: CacheOutcome) -> list[Row]:
    return await move(
        rows,
        jobs,
        JobState.SUCCEEDED,
        also=lambda job: {
            "charged": charge(job, spent.gpu_seconds) if cache is CacheOutcome.MISS else Decimal(0),
            "gpu_seconds": job["gpu_seconds"] + spent.gpu_seconds,
            "warnings": [*job["warnings"], *result.warnings],
            "cache": cache,
            "batch_mates": list(result.mates) or None,
        },
        cache=cache,
    )


def charge(job: Row, gpu_seconds: Decimal) -> Decimal:
    """What a job is charged for its pictures: its price, or the device time of this attempt, up to its price."""
    reserved: Decimal = job["reserved"]
    rate: Decimal | None = job["rate"]
    if rate is None:
        return reserved
    return min(reserved, (rate * gpu_seconds / _HOUR_S).quantize(_SMALLEST, ROUND_HALF_UP))


def remembered(leader: Row, result: Finish) -> bool:
    """True when the pictures of this finish go into the cache."""
    return result.cache is CacheOutcome.MISS and CacheMode(leader["request"]["cache"]).writes


async def fail(rows: Rows, token: int, error: JobError, retry_in_s: float | None, spent: Spent) -> Settled | None:
    """The render failed: for good, to be tried again, or once too often."""
    leader = await rows.lock_held(token)
    if leader is None:
        return None
    if error.code == "deadline_exceeded" and not await _late(rows, leader):
        # The worker kept the deadline of the job from which this one took over the lease.
        leader = await _spend(rows, leader, "handed_back", spent)
        return await _settled(rows, leader, await _hand_back(rows, leader, reason=error.code))
    leader = await _spend(rows, leader, "failed", spent, error.code)
    if retry_in_s is not None and leader["cancel_requested"]:
        return await _settled(rows, leader, await stop(rows, leader))
    followers = await followers_of(rows, leader)
    ring: tuple[str, ...] = ()
    if not error.concerns_render:
        ring, followers = await detach(rows, followers, reason=error.code), []
    jobs = [leader, *followers]
    over = retry_in_s is None or leader["attempts"] >= leader["attempts_allowed"]
    if over and error.concerns_model and not leader["cancel_requested"]:
        jobs, sent = await send_on(rows, jobs, error.code, error)
        ring = (*ring, *sent)
    if retry_in_s is None:
        await move(rows, jobs, JobState.FAILED, error=error)
    elif leader["attempts"] >= leader["attempts_allowed"]:
        await move(rows, jobs, JobState.DEAD, error=error, reason="attempts used up")
    elif retry_in_s > 0:
        await move(rows, jobs, JobState.SCHEDULED, error=error, delay_s=retry_in_s, retry_in_s=retry_in_s)
    else:
        await move(rows, jobs, JobState.QUEUED, error=error, reason="retried")
        ring = (*ring, leader["lane"])
    return await _settled(rows, leader, ring)


async def _late(rows: Rows, job: Row) -> bool:
    """True when the job's own deadline has passed, by the store's clock (a moment's slack for the worker's)."""
    deadline = job["deadline_at"]
    return deadline is not None and deadline < await rows.now() + timedelta(seconds=_CLOCKS_S)


async def canceled(rows: Rows, token: int, spent: Spent) -> Settled | None:
    """The worker stopped on request."""
    leader = await rows.lock_held(token)
    if leader is None:
        return None
    leader = await _spend(rows, leader, "canceled", spent)
    return await _settled(rows, leader, await stop(rows, leader))


async def stop(rows: Rows, leader: Row) -> tuple[str, ...]:
    """End a job (locked) that is rendered no more and was to be canceled; those that joined meanwhile wait again."""
    ring = await detach(rows, await followers_of(rows, leader), reason="leader canceled")
    await move(rows, [leader], JobState.CANCELED)
    return ring


async def release(rows: Rows, token: int, spent: Spent) -> Settled | None:
    """The worker hands the job back; no attempt is counted."""
    leader = await rows.lock_held(token)
    if leader is None:
        return None
    leader = await _spend(rows, leader, "handed_back", spent)
    return await _settled(rows, leader, await _hand_back(rows, leader, reason="handed back"))


async def _hand_back(rows: Rows, leader: Row, reason: str) -> tuple[str, ...]:
    if leader["cancel_requested"]:
        return await stop(rows, leader)
    await give_back(rows, leader, reason=reason)
    return (leader["lane"],)


async def lose(rows: Rows, leader: Row, error_code: str = "worker_lost") -> None:
    """Book the attempt of a lease (locked) that is taken away from its worker: nobody knows how long it took."""
    device = await rows.device_of(leader["worker_id"])
    await rows.add_usage([usage_of(leader, leader, "lost", Spent(device=device), error_code)])


async def _spend(rows: Rows, leader: Row, outcome: Outcome, spent: Spent, error_code: str | None = None) -> Row:
    """Book what an attempt took that brought no pictures; the leader's new row."""
    if spent == NOTHING_SPENT:
        spent = Spent(device=await rows.device_of(leader["worker_id"]))
    await rows.add_usage([usage_of(leader, leader, outcome, spent, error_code)])
    [leader] = await write(rows, [leader], lambda job: {"gpu_seconds": job["gpu_seconds"] + spent.gpu_seconds})
    return leader


def usage_of(lease: Row, job: Row, outcome: Outcome, spent: Spent, error_code: str | None = None) -> Row:
    """The ledger's row of an attempt. ``lease`` is the row that held the lease, ``job`` that whose attempt it was."""
    copied = {
        name: job[name]
        for name in ("key_id", "team", "customer", "lane", "model", "price", "charged", "currency", "dimensions")
    }
    return copied | {
        "job_id": job["id"],
        "attempt": job["attempts"],
        "token": lease["lease_token"],
        "worker_id": lease["worker_id"],
        "device": spent.device,
        "gpu_seconds": spent.gpu_seconds,
        "outcome": outcome,
        "error_code": error_code,
        "cache": job["cache"],
        "batch_rows": spent.batch_rows,
        "pictures": job["request"].get("n", 1) if outcome == "succeeded" else 0,
        "wanted_at": wanted_at(job) if outcome == "succeeded" and job["cache"] != CacheOutcome.HIT else None,
    }


def wanted_at(job: Row) -> datetime:
    """From when on a client waits for a job: its submit, or the start that it was scheduled for."""
    created_at: datetime = job["created_at"]
    start_at = job["request"].get("start_at")
    return max(created_at, datetime.fromisoformat(start_at)) if start_at else created_at


async def _settled(rows: Rows, job: Row, ring: tuple[str, ...]) -> Settled:
    row = await rows.read_job(job["id"])
    if row is None:
        raise LookupError(f"job {job['id']} left its store in the middle of a transaction")
    return Settled(job=await job_of(rows, row), ring=ring)
