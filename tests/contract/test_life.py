"""A job's life with one worker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import uuid4

import pytest

from jobstore.errors import IllegalTransitionError, JobNotFoundError
from jobstore.job import CacheOutcome, JobError, JobState
from jobstore.ledger import Spent
from jobstore.operating.jobs import JobFilter
from jobstore.protocol import JobStore
from tests.contract.making import NOTHING, PRICE, claimed, new_job, new_worker, rendered, result, states_told, sweep

RENDER_FAILED = JobError(code="render_failed", message="it broke")


async def test_a_submitted_job_waits_with_its_price_reserved(store: JobStore) -> None:
    """As it was given, and the same when read."""
    new = new_job(prompt="ō 😄 飞翔", n=2, seed=2**53 - 1, adapters=(("ink", 0.1), ("mist", -1.0)), previews=3)
    job = await store.submit(new)
    assert (job.id, job.state, job.request) == (new.id, JobState.QUEUED, new.request)
    assert (job.reserved, job.charged, job.currency, job.cache) == (PRICE, NOTHING, "USD", CacheOutcome.MISS)
    assert job.dimensions == {"team": "a"}
    assert job.queue_position == 1
    assert await store.get(job.id) == job


async def test_a_submit_tells_the_place_in_the_queue(store: JobStore) -> None:
    """Those that run don't count; one that joins has its leader's place; a scheduled one has none."""
    running = await store.submit(new_job())
    await claimed(store, new_worker())
    assert (await store.get(running.id)).queue_position is None
    places = [(await store.submit(new_job())).queue_position for _ in range(2)]
    last = await store.submit(new_job("same"))
    joined = await store.submit(new_job("same"))
    later = await store.submit(new_job(start_at=datetime.now(UTC) + timedelta(hours=1)))
    assert [*places, last.queue_position, joined.queue_position, later.queue_position] == [1, 2, 3, 3, None]
    assert (await store.get(last.id)).queue_position == 3


async def test_workers_are_those_that_were_seen_lately(store: JobStore) -> None:
    """By a claim or a beat; one that left, or was silent for too long, is none."""
    first, second = new_worker("a", "b"), new_worker()
    await store.beat(first)
    await store.claim(second, second.lanes)
    assert await store.workers(60) == (first, second)
    assert await store.workers(-1) == ()
    await store.leave(first.id)
    assert await store.workers(60) == (second,)


async def test_a_rendered_job_has_its_pictures_and_is_charged(store: JobStore) -> None:
    """State, pictures, charge and events agree."""
    job = await store.submit(new_job(n=2))
    done = await rendered(store, new_worker())
    assert (done.id, done.state, done.attempts) == (job.id, JobState.SUCCEEDED, 1)
    assert (done.reserved, done.charged, done.gpu_seconds) == (NOTHING, PRICE, Decimal("0.5"))
    assert [picture.index for picture in done.pictures] == [0, 1]
    assert done.warnings == ("the prompt was long",)
    assert done.started_at is not None
    assert done.finished_at is not None
    assert await store.get(job.id) == done
    assert await states_told(store, job.id) == ["queued", "running", "succeeded"]
    assert [event.kind for event in await store.events(job.id)] == ["state", "state", "done"]


async def test_an_unknown_job_is_not_found(store: JobStore) -> None:
    """By whichever way it is asked for."""
    for call in (store.get, store.cancel, store.retry):
        with pytest.raises(JobNotFoundError):
            await call(uuid4())


async def test_start_order_is_submit_order_and_priority_goes_first(store: JobStore) -> None:
    """Ten jobs, then a late one of higher priority, which starts next."""
    worker = new_worker()
    first = [(await store.submit(new_job())).id for _ in range(10)]
    late = (await store.submit(new_job(priority=9))).id
    low = (await store.submit(new_job(priority=0))).id
    assert (await store.get(first[0])).queue_position == 2
    started = [(await claimed(store, worker)).job.id for _ in range(12)]
    assert started == [late, *first, low]
    assert await store.claim(worker, ["default"]) is None


async def test_a_claim_keeps_to_its_lanes(store: JobStore) -> None:
    """And takes the oldest head of several."""
    worker = new_worker("a", "b")
    other = await store.submit(new_job(lane="c"))
    first, second = await store.submit(new_job(lane="b")), await store.submit(new_job(lane="a"))
    assert [(await claimed(store, worker, ["a", "b"])).job.id for _ in range(2)] == [first.id, second.id]
    assert await store.claim(worker, ["a", "b"]) is None
    assert (await claimed(store, worker, ["c"])).job.id == other.id


async def test_mates_of_the_open_batch_go_first(store: JobStore) -> None:
    """Within the bound; without mates the head is taken."""
    worker = new_worker()
    small, large = await store.submit(new_job(width=64)), await store.submit(new_job(width=128))
    lease = await store.claim(worker, ["default"], prefer="128")
    assert lease is not None
    assert lease.job.id == large.id
    lease = await store.claim(worker, ["default"], prefer="128")
    assert lease is not None
    assert lease.job.id == small.id


async def test_mates_far_behind_do_not_jump_the_line(store: JobStore) -> None:
    """A job of lower priority ranks a minute later: out of the bound."""
    head, _mate = await store.submit(new_job(width=64)), await store.submit(new_job(width=128, priority=4))
    lease = await store.claim(new_worker(), ["default"], prefer="128")
    assert lease is not None
    assert lease.job.id == head.id


async def test_an_old_token_changes_nothing(store: JobStore) -> None:
    """Whatever it writes, once the lease has gone to another."""
    zombie, worker = new_worker(), new_worker()
    job = await store.submit(new_job())
    old = await claimed(store, zombie)
    assert (await sweep(store, lease_s=0)).rescued == 1
    new = await claimed(store, worker)
    assert new.token > old.token
    assert await store.finish(old.token, result(old)) is None
    assert await store.fail(old.token, RENDER_FAILED) is None
    assert await store.canceled(old.token) is None
    assert await store.release(old.token) is None
    assert (await store.beat(zombie)).held == ()
    settled = await store.finish(new.token, result(new))
    assert settled is not None
    assert settled.job.pictures[0].key.startswith(f"jobs/{job.id}/{new.token}/")
    assert await store.finish(new.token, result(new)) is None


async def test_a_failure_ends_the_job_uncharged(store: JobStore) -> None:
    """With its error told in the job and in its last event."""
    job = await store.submit(new_job())
    lease = await claimed(store, new_worker())
    settled = await store.fail(lease.token, RENDER_FAILED)
    assert settled is not None
    assert (settled.job.state, settled.job.error) == (JobState.FAILED, RENDER_FAILED)
    assert (settled.job.reserved, settled.job.charged) == (NOTHING, NOTHING)
    assert (await store.events(job.id))[-1].data["error"]["code"] == "render_failed"


async def test_a_retry_is_made_until_attempts_are_used_up(store: JobStore) -> None:
    """Three attempts by default, then dead; redriven, it has three again."""
    worker = new_worker()
    job = await store.submit(new_job())
    for attempt, state in ((1, JobState.QUEUED), (2, JobState.QUEUED), (3, JobState.DEAD)):
        lease = await claimed(store, worker)
        assert lease.job.attempts == attempt
        settled = await store.fail(lease.token, RENDER_FAILED, retry_in_s=0)
        assert settled is not None
        assert settled.job.state is state
        assert settled.ring == (("default",) if state is JobState.QUEUED else ())
    again = await store.retry(job.id)
    assert (again.job.state, again.job.reserved, again.job.error, again.ring) == (
        JobState.QUEUED,
        PRICE,
        None,
        ("default",),
    )
    lease = await claimed(store, worker)
    settled = await store.fail(lease.token, RENDER_FAILED, retry_in_s=0)
    assert settled is not None
    assert settled.job.state is JobState.QUEUED
    assert (await rendered(store, worker)).charged == PRICE


async def test_a_later_retry_is_scheduled_and_staged_when_due(store: JobStore) -> None:
    """Nobody can claim it before."""
    worker = new_worker()
    await store.submit(new_job())
    lease = await claimed(store, worker)
    settled = await store.fail(lease.token, RENDER_FAILED, retry_in_s=0.05)
    assert settled is not None
    assert (settled.job.state, settled.job.reserved, settled.ring) == (JobState.SCHEDULED, PRICE, ())
    assert await store.claim(worker, ["default"]) is None
    swept = await sweep(store)
    while not swept.staged:
        swept = await sweep(store)
    assert swept.ring == ("default",)
    assert (await claimed(store, worker)).job.attempts == 2


async def test_a_job_with_a_start_waits_for_it(store: JobStore) -> None:
    """In the future: scheduled; in the past: queued."""
    now = datetime.now(UTC)
    later = await store.submit(new_job(start_at=now + timedelta(hours=1)))
    assert later.state is JobState.SCHEDULED
    assert (await store.submit(new_job(start_at=now - timedelta(hours=1)))).state is JobState.QUEUED
    assert (await store.cancel(later.id)).job.state is JobState.CANCELED


async def test_a_job_past_its_deadline_fails_without_a_render(store: JobStore) -> None:
    """And costs nothing."""
    job = await store.submit(new_job(deadline_s=0.001))
    swept = await sweep(store)
    while not swept.expired:
        swept = await sweep(store)
    late = await store.get(job.id)
    assert late.error is not None
    assert (late.state, late.error.code, late.reserved, late.charged) == (
        JobState.FAILED,
        "deadline_exceeded",
        NOTHING,
        NOTHING,
    )
    assert await store.claim(new_worker(), ["default"]) is None


async def test_a_graceful_stop_is_no_attempt(store: JobStore) -> None:
    """Handed back in its old place."""
    worker = new_worker()
    first = await store.submit(new_job())
    await store.submit(new_job())
    lease = await claimed(store, worker)
    settled = await store.release(lease.token)
    assert settled is not None
    assert (settled.job.state, settled.job.attempts, settled.ring) == (JobState.QUEUED, 0, ("default",))
    assert (await claimed(store, worker)).job.id == first.id
    await store.leave(worker.id)


async def test_a_canceled_waiting_job_never_starts(store: JobStore) -> None:
    """Asked twice, nothing more happens; money is let go."""
    job = await store.submit(new_job())
    assert (await store.cancel(job.id)).job.state is JobState.CANCELED
    again = (await store.cancel(job.id)).job
    assert (again.state, again.reserved, again.charged, again.started_at) == (JobState.CANCELED, NOTHING, NOTHING, None)
    assert await store.claim(new_worker(), ["default"]) is None
    assert await states_told(store, job.id) == ["queued", "canceled"]


async def test_a_running_job_is_canceled_by_its_worker(store: JobStore) -> None:
    """The beat tells it; the job ends when the worker says so."""
    worker = new_worker()
    job = await store.submit(new_job())
    lease = await claimed(store, worker)
    asked = (await store.cancel(job.id)).job
    assert (asked.state, asked.cancel_requested) == (JobState.RUNNING, True)
    [held] = (await store.beat(worker)).held
    assert (held.token, held.job_id, held.cancel_requested) == (lease.token, job.id, True)
    settled = await store.canceled(lease.token, Spent(gpu_seconds=Decimal("0.25"), device="cpu"))
    assert settled is not None
    assert (settled.job.state, settled.job.charged, settled.job.reserved) == (JobState.CANCELED, NOTHING, NOTHING)
    assert (await store.beat(worker)).held == ()


async def test_a_picture_that_is_done_wins_over_a_late_cancel(store: JobStore) -> None:
    """It is there and paid for."""
    job = await store.submit(new_job())
    lease = await claimed(store, new_worker())
    await store.cancel(job.id)
    settled = await store.finish(lease.token, result(lease))
    assert settled is not None
    assert (settled.job.state, settled.job.charged) == (JobState.SUCCEEDED, PRICE)
    assert (await store.cancel(job.id)).job.state is JobState.SUCCEEDED


@pytest.mark.parametrize("state", ["queued", "running", "succeeded", "canceled"])
async def test_only_a_failed_or_dead_job_is_redriven(store: JobStore, state: str) -> None:
    """Anything else is refused, and stays as it is."""
    worker = new_worker()
    job = await store.submit(new_job())
    if state == "running":
        await claimed(store, worker)
    elif state == "succeeded":
        await rendered(store, worker)
    elif state == "canceled":
        await store.cancel(job.id)
    with pytest.raises(IllegalTransitionError):
        await store.retry(job.id)
    assert (await store.get(job.id)).state == state


async def test_a_list_is_newest_first_in_pages(store: JobStore) -> None:
    """Every job once; a filter holds over pages; a made-up cursor is refused."""
    jobs = [await store.submit(new_job(model="even" if index % 2 == 0 else "odd")) for index in range(7)]
    await store.cancel(jobs[0].id)
    seen, cursor = [], None
    while True:
        page = await store.list_jobs(JobFilter(limit=3, cursor=cursor))
        seen += [job.id for job in page.jobs]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [job.id for job in reversed(jobs)]
    even = await store.list_jobs(JobFilter(model="even", states=(JobState.QUEUED,)))
    assert [job.id for job in even.jobs] == [jobs[index].id for index in (6, 4, 2)]
    with pytest.raises(ValueError, match="cursor"):
        await store.list_jobs(JobFilter(cursor="made-up"))


async def test_events_are_replayed_from_any_of_them(store: JobStore) -> None:
    """Per job and over all jobs, in order."""
    before = await store.last_event()
    job = await store.submit(new_job())
    await rendered(store, new_worker())
    events = await store.events(job.id)
    assert await store.events(job.id, after=events[0].seq) == events[1:]
    assert await store.events_since(before) == events
    assert await store.events_since(before, limit=2) == events[:2]
    assert await store.last_event() == events[-1].seq


async def test_counts_tell_the_backlog(store: JobStore) -> None:
    """Ended jobs are not in it."""
    for _ in range(3):
        await store.submit(new_job())
    await rendered(store, new_worker())
    await claimed(store, new_worker())
    counts = {(count.lane, count.state): count.count for count in await store.counts()}
    assert counts == {("default", JobState.QUEUED): 1, ("default", JobState.RUNNING): 1}


async def test_a_canceled_job_that_is_handed_back_is_canceled(store: JobStore) -> None:
    """Its worker stops gracefully before it saw the request: nobody renders or pays for it then."""
    worker = new_worker()
    job = await store.submit(new_job())
    lease = await claimed(store, worker)
    assert (await store.cancel(job.id)).job.cancel_requested
    await store.release(lease.token)
    assert await store.claim(worker, ["default"]) is None
    now = await store.get(job.id)
    assert (now.state, now.reserved, now.charged) == (JobState.CANCELED, NOTHING, NOTHING)


async def test_a_canceled_job_that_fails_is_not_tried_again(store: JobStore) -> None:
    """At once or later."""
    worker = new_worker()
    for retry_in_s in (0, 3600):
        job = await store.submit(new_job())
        lease = await claimed(store, worker)
        await store.cancel(job.id)
        await store.fail(lease.token, JobError(code="render_failed", message="x"), retry_in_s)
        assert (await store.get(job.id)).state is JobState.CANCELED
