"""What operators ask of a store: searches with bounds, cancels by filter, attempts, workers that drain, figures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial

import msgspec
import pytest

from jobstore.audit import Actor, AuditFilter
from jobstore.errors import JobNotFoundError, WorkerNotFoundError
from jobstore.ids import uuid7
from jobstore.job import JobError, JobState
from jobstore.operating.jobs import JobFilter
from jobstore.operating.workers import WorkerReport
from jobstore.protocol import JobStore
from jobstore.rules.requests import cancel_all
from jobstore.rules.store import RuledStore
from tests.contract.making import claimed, failed, new_job, new_worker, rendered, result

OPERATOR = Actor(name="operator")
REPORT = WorkerReport(version="1", slots=4, held=1, memory_used=2**31, models=("m",), occupancy=0.25)


async def test_a_search_that_looked_at_enough_goes_on_by_its_cursor(
    store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that it stopped, a count says that it is a part, and a cancel goes on where it was."""
    for room in ("postgres", "sqlite"):
        monkeypatch.setattr(f"jobstore.{room}.finding.LOOKED_AT", 2)
    rare = await store.submit(new_job(model="rare"))
    for _ in range(3):
        await store.submit(new_job())
    where = JobFilter(model="rare")
    page = await store.list_jobs(where)
    assert (page.jobs, page.stopped_early) == ((), True)
    assert (await store.count_jobs(where)).at_least
    rest = await store.list_jobs(msgspec.structs.replace(where, cursor=page.next_cursor))
    assert [job.id for job in rest.jobs] == [rare.id]
    none = await store.cancel_jobs(where)
    assert (none.job_ids, none.next_cursor is None) == ((), False)
    done = await store.cancel_jobs(msgspec.structs.replace(where, cursor=none.next_cursor))
    assert done.job_ids == (rare.id,)


async def test_running_jobs_are_found_behind_a_long_queue(store: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked up by their leases; those that joined are among them."""
    for room in ("postgres", "sqlite"):
        monkeypatch.setattr(f"jobstore.{room}.finding.LOOKED_AT", 2)
    leader = await store.submit(new_job("same"))
    await claimed(store, new_worker())
    follower = await store.submit(new_job("same"))
    for _ in range(3):
        await store.submit(new_job())
    page = await store.list_jobs(JobFilter(states=(JobState.RUNNING,)))
    assert [job.id for job in page.jobs] == [follower.id, leader.id]


async def test_times_narrow_a_search(store: JobStore) -> None:
    """To what was created between them, by the store's clock."""
    job = await store.submit(new_job())
    hour = timedelta(hours=1)
    assert (await store.count_jobs(JobFilter(created_after=job.created_at - hour))).count == 1
    assert (await store.count_jobs(JobFilter(created_after=job.created_at + hour))).count == 0
    assert (await store.count_jobs(JobFilter(created_before=job.created_at - hour))).count == 0
    counted = await store.count_jobs(JobFilter(created_before=job.created_at + hour))
    assert (counted.count, counted.at_least) == (1, False)
    assert counted.as_of >= job.created_at
    await store.submit(new_job())
    assert (await store.count_jobs(JobFilter(created_before=counted.as_of))).count == 1
    assert (await store.count_jobs(JobFilter(), most=1)).at_least


async def test_the_ends_of_the_calendar_are_times_like_others(store: JobStore) -> None:
    """Whatever their zone: also where they are no date in another."""
    await store.submit(new_job())
    await failed(store, new_worker())
    for zone in (UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))):
        first, last = datetime.min.replace(tzinfo=zone), datetime.max.replace(tzinfo=zone)
        assert (await store.count_jobs(JobFilter(created_after=first, created_before=last))).count == 1
        assert (await store.list_jobs(JobFilter(created_before=first))).jobs == ()
        assert (await store.count_jobs(JobFilter(created_after=last))).count == 0
        assert (await store.count_letters(JobFilter(finished_after=first, finished_before=last))).count == 1
        assert (await store.list_audit(AuditFilter(after=first, before=last))).entries == ()


async def test_a_cancel_leaves_what_is_not_as_its_filter_says(store: JobStore) -> None:
    """Running jobs where only queued ones are meant; reserved money is free again; the audit is in the transaction."""
    key = uuid7()
    running = await store.submit(new_job(key_id=key))
    await claimed(store, new_worker())
    waiting = [await store.submit(new_job(key_id=key)) for _ in range(3)]
    done = await store.cancel_jobs(JobFilter(states=(JobState.QUEUED,), key_id=key), by=OPERATOR)
    assert set(done.job_ids) == {job.id for job in waiting}
    assert (await store.get(running.id)).state is JobState.RUNNING
    assert (await store.balance(key, "USD")).reserved == running.reserved
    [entry] = (await store.list_audit(AuditFilter(action="jobs.canceled"))).entries
    assert (entry.actor, entry.details["count"], len(entry.details["job_ids"])) == ("operator", 3, 3)
    stopping = await store.cancel_jobs(JobFilter(key_id=key))
    assert stopping.job_ids == (running.id,)
    assert (await store.cancel_jobs(JobFilter(key_id=key))).job_ids == ()


async def test_a_cancel_leaves_what_its_worker_has_no_more(store: JobStore) -> None:
    """A job may move between being found and being locked: then it is as the filter says no more."""
    other, holder = new_worker(), new_worker()
    await store.beat(other, ())
    held = await store.submit(new_job())
    await claimed(store, holder)
    assert isinstance(store, RuledStore)
    for where, reached in (
        (JobFilter(worker_id=other.id), ()),
        (JobFilter(host="elsewhere"), ()),
        (JobFilter(worker_id=holder.id, host=holder.host, model=held.request.model), (held.id,)),
    ):
        done = await store.in_transaction(partial(cancel_all, ids=[held.id], where=where))
        assert done.job_ids == reached


async def test_letters_are_counted_before_they_are_redriven(store: JobStore) -> None:
    """The count is that of the filter; a redrive with a limit tells where it goes on."""
    for _ in range(3):
        await store.submit(new_job())
        await failed(store, new_worker())
    assert (await store.count_letters(JobFilter())).count == 3
    assert (await store.count_letters(JobFilter(error_code="other"))).count == 0
    done = await store.redrive(JobFilter(), limit=2, by=OPERATOR)
    assert len(done.job_ids) == 2
    rest = await store.redrive(JobFilter(cursor=done.next_cursor))
    assert (len(rest.job_ids), rest.next_cursor) == (1, None)
    [entry] = (await store.list_audit(AuditFilter(action="jobs.redriven"))).entries
    assert entry.details["count"] == 2


async def test_each_attempt_is_told(store: JobStore) -> None:
    """Where it was, from when to when, what came of it and how full its batches were; a worker's host outlives it."""
    job = await store.submit(new_job())
    worker, mate = new_worker(), uuid7()
    first = await claimed(store, worker)
    [under_way] = await store.attempts(job.id)
    assert (under_way.outcome, under_way.worker_id, under_way.ended_at) == ("running", worker.id, None)
    await store.fail(first.token, JobError(code="out_of_memory", message="x"), retry_in_s=0)
    second = await claimed(store, worker)
    batch = msgspec.structs.replace(result(second), batch_rows=2.5, mates=(mate,))
    await store.finish(second.token, batch)
    await store.leave(worker.id)
    broke, done = await store.attempts(job.id)
    assert (broke.number, broke.outcome, broke.error_code, broke.mates) == (1, "failed", "out_of_memory", ())
    assert (done.number, done.outcome, done.batch_rows, done.mates) == (2, "succeeded", 2.5, (mate,))
    assert (done.host, done.gpu_seconds) == ("host", Decimal("0.5"))
    for attempt in (broke, done):
        assert attempt.started_at is not None
        assert attempt.ended_at is not None
        assert attempt.started_at <= attempt.ended_at
    with pytest.raises(JobNotFoundError):
        await store.attempts(uuid7())


async def test_a_worker_drains_and_goes_on(store: JobStore) -> None:
    """Its beat brings the word, the store gives it nothing, it finishes what it holds; resumed, it claims again."""
    worker = new_worker()
    assert not (await store.beat(worker, (), REPORT)).drain
    job = await store.submit(new_job())
    lease = await claimed(store, worker)
    await store.submit(new_job())
    status = await store.drain_worker(worker.id, OPERATOR)
    assert (status.state, status.held, status.report) == ("draining", 1, REPORT)
    answer = await store.beat(worker)
    assert answer.drain
    assert [held.job_id for held in answer.held] == [job.id]
    assert await store.claim(worker, worker.lanes) is None
    await store.finish(lease.token, result(lease))
    status = await store.worker_status(worker.id)
    assert (status.state, status.held, status.report) == ("drained", 0, REPORT)
    assert (await store.resume_worker(worker.id, OPERATOR)).state == "serving"
    assert not (await store.beat(worker)).drain
    await claimed(store, worker)
    actions = [entry.action for entry in (await store.list_audit()).entries]
    assert actions == ["worker.resumed", "worker.drained"]


async def test_workers_that_left_or_never_were_are_not_there(store: JobStore) -> None:
    """A silent one still is, and says so."""
    gone, silent = new_worker(), msgspec.structs.replace(new_worker(), lease_s=0.0)
    await store.beat(gone)
    await store.beat(silent)
    await store.leave(gone.id)
    [status] = await store.worker_statuses()
    assert (status.id, status.state, status.alive) == (silent.id, "silent", False)
    assert [worker.id for worker in await store.workers(60)] == [silent.id]
    for worker_id in (gone.id, uuid7()):
        with pytest.raises(WorkerNotFoundError):
            await store.drain_worker(worker_id, OPERATOR)
        with pytest.raises(WorkerNotFoundError):
            await store.worker_status(worker_id)
    assert (await store.list_audit()).entries == ()


async def test_figures_are_of_recent_windows(store: JobStore) -> None:
    """The last hour by minutes, letters of a day, and what was charged today, on the zone's clock."""
    worker = new_worker()
    for _ in range(2):
        await store.submit(new_job())
        await rendered(store, worker)
    await store.submit(new_job())
    await failed(store, worker)
    gone = await store.submit(new_job())
    await store.cancel(gone.id)
    figures = await store.figures("Asia/Kolkata")
    assert len(figures.minutes) == 60
    assert figures.minutes[0].at == figures.minutes[-1].at - timedelta(minutes=59)
    sums = {name: sum(getattr(one, name) for one in figures.minutes) for name in ("succeeded", "failed", "canceled")}
    assert sums == {"succeeded": 2, "failed": 1, "canceled": 1}
    assert (figures.failed, figures.dead, figures.rendered, figures.hits) == (1, 0, 2, 0)
    assert figures.success_rate == pytest.approx(2 / 3)
    assert figures.since <= figures.at < figures.since + timedelta(hours=25)
    assert (figures.since.minute, figures.since.hour) in ((30, 18),)
    [cost] = figures.costs
    assert (cost.currency, cost.charged, cost.gpu_seconds) == ("USD", Decimal("0.004"), Decimal(1))
