"""Searches and reports take turns: what jobs live by finds a connection meanwhile."""

from __future__ import annotations

import asyncio
import gc
from uuid import uuid4

import pytest

from jobstore.errors import StoreBusyError
from jobstore.job import JobState
from jobstore.operating.jobs import JobFilter
from jobstore.postgres.columns import Connection
from jobstore.postgres.store import PostgresStore
from jobstore.postgres.turns import Turns
from jobstore.reports.model import ReportQuery
from tests.contract.making import new_job


async def _sleep(connection: Connection) -> None:
    await connection.execute("SELECT pg_sleep(60)")


async def test_one_owners_slow_reads_hold_up_nobody_else(database: str) -> None:
    """However many there are: a job is read, and another's search is answered, while all of them wait or go on."""
    store = PostgresStore(database, max_connections=6)
    await store.open()
    try:
        job = await store.submit(new_job())
        slow = [asyncio.create_task(store.slowly(_sleep, owner="flood", limit_s=1.5)) for _ in range(24)]
        await asyncio.sleep(0)
        for _ in range(20):
            assert (await store.get(job.id)).id == job.id
        assert [found.id for found in (await store.list_jobs(JobFilter())).jobs] == [job.id]
        assert not any(task.done() for task in slow)
        ended = await asyncio.gather(*slow, return_exceptions=True)
    finally:
        await store.close()
    assert {type(error) for error in ended} == {StoreBusyError}
    assert {str(error).split(":")[0] for error in ended if error is not None} == {
        "this takes longer than 1.5 s at the moment",
        "too many searches and reports are under way",
    }


async def test_a_bound_on_a_slow_read_stays_with_it(database: str) -> None:
    """The connection's next statement has its own time."""
    store = PostgresStore(database, max_connections=1)
    await store.open()
    try:
        with pytest.raises(StoreBusyError, match=r"longer than 0\.05 s"):
            await store.slowly(_sleep, owner=None, limit_s=0.05)
        found = await store.on_connection(lambda c: c.execute("SHOW statement_timeout"))
        assert (await found.fetchone() or {})["statement_timeout"] == "0"
    finally:
        await store.close()


async def test_turns_are_shared_between_owners() -> None:
    """One owner has its share at most; who is canceled while waiting takes none with it; none are left behind."""
    turns = Turns(at_once=2, each=1, wait_s=0.05)
    first, second = uuid4(), uuid4()
    async with turns.take(first):
        with pytest.raises(StoreBusyError, match="try again"):
            async with turns.take(first):
                pass
        async with turns.take(second):
            with pytest.raises(StoreBusyError):
                async with turns.take(None):
                    pass
    async with turns.take(first), turns.take(second):
        pass
    await asyncio.sleep(0)
    gc.collect()  # the errors above have frames that hold turns
    assert not len(turns._own)


async def test_whatever_looks_at_many_rows_takes_a_turn(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists, counts, what is to be canceled or redriven, the overview's figures, the audit log; a job needs none."""
    job = await store.submit(new_job())
    monkeypatch.setattr(store._transactions, "_turns", Turns(at_once=0, each=1, wait_s=0.01))
    for slow in (
        store.list_jobs(JobFilter()),
        store.count_jobs(JobFilter()),
        store.count_letters(JobFilter()),
        store.cancel_jobs(JobFilter(model="m")),
        store.redrive(JobFilter()),
        store.figures("Europe/Berlin"),
        store.costs(ReportQuery(first=job.created_at.date(), last=job.created_at.date())),
        store.list_audit(),
    ):
        with pytest.raises(StoreBusyError, match="try again"):
            await slow
    assert (await store.get(job.id)).state is JobState.QUEUED
