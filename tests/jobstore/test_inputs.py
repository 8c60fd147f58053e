"""The pictures that jobs begin from are there while a job needs them, and no longer."""

from __future__ import annotations

import pytest

from jobstore.errors import OutputDamagedError, OutputNotFoundError
from jobstore.ids import uuid7
from jobstore.inputs import delete_inputs, digest_of, get_input, input_key, put_inputs, stale_inputs
from jobstore.job import JobError
from jobstore.outputs import Outputs
from jobstore.postgres.store import PostgresStore
from tests.contract.making import LANE, new_job, new_worker, result

DATA = b"a picture"
NAME = digest_of(DATA)


async def test_what_was_put_comes_back_or_is_said_to_be_damaged(outputs: Outputs) -> None:
    """By its digest."""
    job_id = uuid7()
    await put_inputs(outputs, job_id, {NAME: DATA})
    assert await get_input(outputs, job_id, NAME) == DATA
    await outputs.put(input_key(job_id, NAME), b"another", "image/png")
    with pytest.raises(OutputDamagedError):
        await get_input(outputs, job_id, NAME)
    await delete_inputs(outputs, job_id, [NAME])
    with pytest.raises(OutputNotFoundError):
        await get_input(outputs, job_id, NAME)


async def test_inputs_go_with_their_jobs(store: PostgresStore, outputs: Outputs) -> None:
    """Those of a job that waits, runs or may be redriven stay; of one that is done, or never was, they go."""
    names = ("done", "failed", "canceled", "waits")
    jobs = {name: await store.submit(new_job(prompt=name)) for name in names}
    for name in ("done", "failed"):
        lease = await store.claim(new_worker(), (LANE,))
        assert lease is not None and lease.job.id == jobs[name].id
        if name == "done":
            await store.finish(lease.token, result(lease))
        else:
            await store.fail(lease.token, JobError(code="bad_output", message="no"))
    await store.cancel(jobs["canceled"].id)
    missing = uuid7()
    for job_id in (*(job.id for job in jobs.values()), missing):
        await put_inputs(outputs, job_id, {NAME: DATA})
    await outputs.put("inputs/strange/thing", b"x", "image/png")
    stale = {key async for keys in stale_inputs(store, outputs, older_than_s=-60) for key in keys}
    assert stale == {input_key(job_id, NAME) for job_id in (jobs["done"].id, jobs["canceled"].id, missing)}
    assert [key async for keys in stale_inputs(store, outputs, older_than_s=600) for key in keys] == []
