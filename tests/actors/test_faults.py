"""Stores, outputs and leases that fail at the wrong moment: nothing lost, one result, one charge."""

from __future__ import annotations

import errno
import os
from decimal import Decimal
from uuid import uuid4

import msgspec
from psycopg import OperationalError

from jobstore.fingerprint import batch_key
from jobstore.job import JobState, Picture
from jobstore.outputs import ObjectOutputs, Outputs
from jobstore.postgres.store import PostgresStore
from jobstore.protocol import Finish, Settled, Worker
from tests.actors.harness import MODEL, Darkroom, new_job


class FullDisk(ObjectOutputs):
    """Outputs on a disk that is full for the first write."""

    def __init__(self, outputs: Outputs) -> None:
        assert isinstance(outputs, ObjectOutputs)
        super().__init__(outputs._store)
        self.failures = 1

    async def put(self, key: str, data: bytes, media_type: str) -> None:
        """Fail, then write."""
        if self.failures:
            self.failures -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        await super().put(key, data, media_type)


class AwayAtTheFinish(PostgresStore):
    """A database that is away for the first two finishes."""

    failures = 2

    async def finish(self, token: int, result: Finish) -> Settled | None:
        """Fail before anything is written."""
        if self.failures:
            self.failures -= 1
            raise OperationalError("server closed the connection unexpectedly")
        return await super().finish(token, result)


class LostAnswer(PostgresStore):
    """A connection that breaks after the commit, before its answer."""

    failures = 1

    async def finish(self, token: int, result: Finish) -> Settled | None:
        """Write, then fail."""
        settled = await super().finish(token, result)
        if self.failures:
            self.failures -= 1
            raise OperationalError("server closed the connection unexpectedly")
        return settled


async def test_full_disk_is_tried_again(darkroom: Darkroom) -> None:
    """A second attempt, one charge."""
    darkroom.outputs = FullDisk(darkroom.outputs)
    await darkroom.start()
    job = await darkroom.submit()
    waiting = await darkroom.wait(job.id, JobState.SCHEDULED)
    assert waiting.error is not None
    assert waiting.error.code == "outputs_unavailable"
    done = await darkroom.wait(job.id)
    assert (done.state, done.attempts, done.charged) == (JobState.SUCCEEDED, 2, Decimal("0.01"))


async def test_database_away_at_the_finish(darkroom: Darkroom, database: str) -> None:
    """The result is written once it is back; nothing is rendered twice."""
    darkroom.make_store = lambda: AwayAtTheFinish(database)
    await darkroom.start()
    done = await darkroom.wait((await darkroom.submit()).id)
    assert (done.state, done.attempts) == (JobState.SUCCEEDED, 1)
    assert len(darkroom.progress.told) == 3


async def test_finish_whose_answer_is_lost(darkroom: Darkroom, database: str) -> None:
    """The second try finds the token gone; the pictures must stay, for the first one went through."""
    darkroom.make_store = lambda: LostAnswer(database)
    await darkroom.start()
    done = await darkroom.wait((await darkroom.submit()).id)
    await darkroom.stop()
    assert (done.state, done.charged) == (JobState.SUCCEEDED, Decimal("0.01"))
    assert await darkroom.outputs.exists(done.pictures[0].key)


async def test_result_under_an_old_token_is_discarded(darkroom: Darkroom) -> None:
    """Another worker took the job over and finished it: its picture stands, ours is deleted."""
    await darkroom.start(beat_s=60, lease_s=60)
    darkroom.progress.hold()
    job = await darkroom.submit()
    await darkroom.reached()
    await darkroom.store.sweep(lease_s=0, ring_again_s=60, max_rescues=3)
    other = Worker(id=uuid4(), host="other", pid=1, device="cpu", lanes=(darkroom.lane,))
    lease = await darkroom.store.claim(other, [darkroom.lane])
    assert lease is not None
    theirs = Picture(
        index=0, key="theirs.png", seed=1, width=64, height=64, sha256="0" * 64, size_bytes=1, media_type="image/png"
    )
    assert await darkroom.store.finish(lease.token, Finish(pictures=(theirs,), device="cpu")) is not None
    darkroom.progress.let_go()
    await darkroom.stop()
    done = await darkroom.store.get(job.id)
    assert (done.state, done.charged) == (JobState.SUCCEEDED, Decimal("0.01"))
    assert [picture.key for picture in done.pictures] == ["theirs.png"]
    for token in range(1, lease.token + 1):
        assert not await darkroom.outputs.exists(f"jobs/{job.id}/{token}/0.png")


async def test_lost_lease_stops_the_render(darkroom: Darkroom) -> None:
    """The next beat says so; the job goes on elsewhere."""
    await darkroom.start()
    darkroom.progress.hold()
    job = await darkroom.submit(steps=150)
    await darkroom.reached()
    other = Worker(id=uuid4(), host="other", pid=1, device="cpu", lanes=(darkroom.lane,))
    await darkroom.store.sweep(lease_s=0, ring_again_s=60, max_rescues=3)
    assert await darkroom.store.claim(other, [darkroom.lane]) is not None
    darkroom.progress.let_go()
    await darkroom.stop()
    assert len(darkroom.progress.told) < 150
    taken = await darkroom.store.get(job.id)
    assert (taken.state, taken.worker_id) == (JobState.RUNNING, other.id)


async def test_worker_with_another_revision_does_not_render(darkroom: Darkroom) -> None:
    """Its picture would not be the one that the fingerprint names."""
    await darkroom.start()
    new = new_job(darkroom.lane)
    other = batch_key(new.request, msgspec.structs.replace(MODEL, revision="other"))
    job = await darkroom.store.submit(msgspec.structs.replace(new, batch_key=other))
    darkroom.ring()
    waiting = await darkroom.wait(job.id, JobState.SCHEDULED)
    assert waiting.error is not None
    assert waiting.error.code == "model_unavailable"
    assert darkroom.progress.told == []
