"""What becomes of checkpoints: kept while they are of use, fetched by the next attempt, deleted with the job's end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from actors.checkpointing import Checkpointer
from actors.engine.errors import BadOutputError, EngineError
from actors.leases import HeldJob
from jobstore.checkpoints import checkpoint_key
from jobstore.errors import OutputNotFoundError
from jobstore.janitor import Janitor
from jobstore.job import JobState
from jobstore.outputs import Outputs
from jobstore.protocol import Lease, Worker
from safelight.config import RetentionSettings
from tests.actors.harness import Darkroom, new_job
from tests.actors.standin import StandInEngine
from tests.actors.test_solitude import job as job_of
from tests.engine.conftest import TIMEOUT_S


async def lying(outputs: Outputs, job_id: UUID) -> bytes | None:
    """The job's checkpoint, if there is one."""
    try:
        return await outputs.get(checkpoint_key(job_id))
    except OutputNotFoundError:
        return None


async def until(outputs: Outputs, job_id: UUID, wanted: bytes | None) -> None:
    """Wait until that is what lies there."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            if await lying(outputs, job_id) == wanted:
                return
            await asyncio.sleep(0.01)


async def lose(room: Darkroom, rescues: int = 1) -> None:
    """Workers claim everything and die, one after the other."""
    for _ in range(rescues):
        dead = Worker(id=uuid4(), host="dead", pid=1, device="cpu", lanes=(room.lane,))
        while await room.store.claim(dead, [room.lane]):
            pass
        await room.store.sweep(lease_s=0, ring_again_s=60, max_rescues=9)


async def test_a_stop_keeps_what_was_done_and_the_next_worker_goes_on(room: Darkroom, standin: StandInEngine) -> None:
    """The checkpoint lies there before the job is free again; it goes when the job has its picture."""
    await room.start()
    job = await room.submit()
    assert (await asyncio.to_thread(standin.taken, 1)).request.checkpoint is None
    await room.stop(grace_s=0.0)
    assert standin.handles[0].keep_requested
    assert (await room.store.get(job.id)).state is JobState.QUEUED
    assert await lying(room.outputs, job.id) == b"at the stop"
    await room.start()
    room.ring()
    handle = await asyncio.to_thread(standin.taken, 2)
    assert handle.request.checkpoint == b"at the stop"
    standin.finish(handle, resumed_at=2)
    assert (await room.wait(job.id)).state is JobState.SUCCEEDED
    await until(room.outputs, job.id, None)


async def test_intervals_keep_the_newest_for_whoever_rescues(room: Darkroom, standin: StandInEngine) -> None:
    """As the settings say how often; a rescued job goes on from there."""
    await room.start()
    job = await room.submit()
    handle = await asyncio.to_thread(standin.taken, 1)
    assert handle.watch.checkpoint_every_s == 30.0
    assert handle.watch.on_checkpoint is not None
    for number in range(20):
        handle.watch.on_checkpoint(b"%d" % number)
    await until(room.outputs, job.id, b"19")
    standin.checkpoint = None  # as if the process had died
    await room.stop(grace_s=0.0)
    await room.start()
    room.ring()
    assert (await asyncio.to_thread(standin.taken, 2)).request.checkpoint == b"19"


async def test_a_client_s_cancel_keeps_none(room: Darkroom, standin: StandInEngine) -> None:
    """And takes along what an interval left."""
    await room.start()
    job = await room.submit()
    handle = await asyncio.to_thread(standin.taken, 1)
    assert handle.watch.on_checkpoint is not None
    handle.watch.on_checkpoint(b"one")
    await until(room.outputs, job.id, b"one")
    await room.store.cancel(job.id)
    assert (await room.wait(job.id)).state is JobState.CANCELED
    assert not handle.keep_requested
    await until(room.outputs, job.id, None)


@pytest.mark.parametrize(
    ("rescues", "max_rescues", "fetched"), [(1, 3, True), (2, 3, False), (2, 4, True), (1, 1, False)]
)
async def test_the_last_chance_begins_anew(
    room: Darkroom, standin: StandInEngine, rescues: int, max_rescues: int, fetched: bool
) -> None:
    """The checkpoint may be what kills every process that goes on from it."""
    job = await room.submit(ring=False)
    await room.outputs.put(checkpoint_key(job.id), b"deadly", "application/octet-stream")
    await lose(room, rescues)
    await room.start(max_rescues=max_rescues)
    room.ring()
    handle = await asyncio.to_thread(standin.taken, 1)
    assert handle.request.checkpoint == (b"deadly" if fetched else None)
    standin.finish(handle)
    await room.wait(job.id)
    await until(room.outputs, job.id, None)


@pytest.mark.parametrize(("error", "kept"), [(EngineError("broke"), True), (BadOutputError("not a number"), False)])
async def test_a_failed_attempt_is_gone_on_from_unless_its_numbers_are_bad(
    room: Darkroom, standin: StandInEngine, error: EngineError, kept: bool
) -> None:
    """A picture that is not a number would be one again."""
    await room.start()
    job = await room.submit()
    handle = await asyncio.to_thread(standin.taken, 1)
    assert handle.watch.on_checkpoint is not None
    handle.watch.on_checkpoint(b"one")
    await until(room.outputs, job.id, b"one")
    standin.fail(handle, error)
    await room.wait(job.id, JobState.SCHEDULED)
    if not kept:
        await until(room.outputs, job.id, None)
    again = await asyncio.to_thread(standin.taken, 2)
    assert again.request.checkpoint == (b"one" if kept else None)


@pytest.mark.parametrize(
    ("history", "fetched"),
    [
        ({"attempts": 1}, False),
        ({"attempts": 1, "gpu_seconds": Decimal("0.5")}, True),
        ({"attempts": 1, "rescues": 1}, True),
        ({"attempts": 2}, True),
        ({"attempts": 3}, False),
        ({"attempts": 1, "max_attempts": 1, "rescues": 1}, True),
    ],
    ids=["first", "handed back", "rescued", "second try", "last try", "one try, rescued"],
)
async def test_who_goes_on_from_a_checkpoint(outputs: Outputs, history: dict[str, Any], fetched: bool) -> None:
    """Whoever comes after another, but for the last try."""
    held = HeldJob(Lease(token=1, job=msgspec.structs.replace(job_of(rescues=0), **history)), 0.0)
    await outputs.put(checkpoint_key(held.job_id), b"one", "application/octet-stream")
    assert await Checkpointer(outputs, held).fetch(max_rescues=3) == (b"one" if fetched else None)


async def test_a_checkpoint_that_is_too_long_is_not_read(outputs: Outputs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its length is asked first."""
    monkeypatch.setattr("actors.checkpointing.MAX_BYTES", 3)
    held = HeldJob(Lease(token=1, job=job_of(rescues=1)), 0.0)
    await outputs.put(checkpoint_key(held.job_id), b"four", "application/octet-stream")
    assert await Checkpointer(outputs, held).fetch(max_rescues=3) is None


async def test_a_first_attempt_asks_for_nothing(room: Darkroom, standin: StandInEngine) -> None:
    """Nobody can have left anything: no look at the outputs."""
    job = await room.submit(ring=False)
    await room.outputs.put(checkpoint_key(job.id), b"stray", "application/octet-stream")
    await room.start()
    room.ring()
    assert (await asyncio.to_thread(standin.taken, 1)).request.checkpoint is None


class Failing:
    """Outputs that take pictures and refuse checkpoints."""

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs
        self.tried = threading.Semaphore(0)  # of two threads: the worker has an event loop of its own

    def __getattr__(self, name: str) -> object:
        """All else is as it was."""
        return getattr(self._outputs, name)

    async def put(self, key: str, data: bytes, media_type: str) -> None:
        """Only pictures."""
        if key.startswith("checkpoints/"):
            self.tried.release()
            raise OSError("no room")
        await self._outputs.put(key, data, media_type)


async def test_outputs_that_take_no_checkpoint_cost_no_render(
    room: Darkroom, standin: StandInEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told once."""
    room.outputs = failing = Failing(room.outputs)  # type: ignore[assignment]
    await room.start()
    job = await room.submit()
    handle = await asyncio.to_thread(standin.taken, 1)
    assert handle.watch.on_checkpoint is not None
    for _ in range(3):
        handle.watch.on_checkpoint(b"one")
        assert await asyncio.to_thread(failing.tried.acquire, timeout=TIMEOUT_S)
    standin.finish(handle)
    assert (await room.wait(job.id)).state is JobState.SUCCEEDED
    written = capsys.readouterr()
    assert (written.out + written.err).count("checkpointing.failed") == 1


class Slow(Failing):
    """Outputs that take their time, and count how many writes are under way."""

    def __init__(self, outputs: Outputs) -> None:
        super().__init__(outputs)
        self.under_way = self.most = 0
        self.written: list[bytes] = []

    async def put(self, key: str, data: bytes, media_type: str) -> None:
        """Slowly."""
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.05)
        self.under_way -= 1
        self.written.append(data)
        await self._outputs.put(key, data, media_type)


async def test_a_job_writes_one_at_a_time_and_only_the_newest(room: Darkroom, standin: StandInEngine) -> None:
    """An older one never comes last; nothing is written after the end."""
    room.outputs = slow = Slow(room.outputs)  # type: ignore[assignment]
    await room.start()
    job = await room.submit()
    handle = await asyncio.to_thread(standin.taken, 1)
    assert handle.watch.on_checkpoint is not None
    for number in range(50):
        handle.watch.on_checkpoint(b"%d" % number)
        await asyncio.sleep(0.005)
    await until(room.outputs, job.id, b"49")
    assert slow.most == 1
    assert len(slow.written) < 20
    handle.watch.on_checkpoint(b"late")
    standin.finish(handle)
    await room.wait(job.id)
    handle.watch.on_checkpoint(b"later")
    await until(room.outputs, job.id, None)
    await asyncio.sleep(0.2)
    assert await lying(room.outputs, job.id) is None


class Stuck(Failing):
    """Outputs that never finish a write of a checkpoint."""

    async def put(self, key: str, data: bytes, media_type: str) -> None:
        """For ever, or until told to stop."""
        if key.startswith("checkpoints/"):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
        else:
            await self._outputs.put(key, data, media_type)


async def test_outputs_that_hang_don_t_keep_the_lease(
    room: Darkroom, standin: StandInEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is handed back in time, without its checkpoint."""
    monkeypatch.setattr("actors.checkpointing._KEEP_S", 0.2)
    room.outputs = Stuck(room.outputs)  # type: ignore[assignment]
    await room.start()
    job = await room.submit()
    await asyncio.to_thread(standin.taken, 1)
    async with asyncio.timeout(5):
        await room.stop(grace_s=0.0)
    assert (await room.store.get(job.id)).state is JobState.QUEUED


async def test_the_janitor_finds_those_of_jobs_that_ended_alone(
    room: Darkroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Canceled while it waited, or gone altogether; what still waits keeps its own, and no other file is touched."""
    monkeypatch.setattr("jobstore.janitor.DOOMED_GRACE_S", 0.0)
    waiting, canceled = [await room.submit(ring=False, seed=seed) for seed in (1, 2)]
    keys = [checkpoint_key(job_id) for job_id in (waiting.id, canceled.id, uuid4())] + ["checkpoints/note.txt"]
    for key in keys:
        await room.outputs.put(key, b"x", "application/octet-stream")
    await room.store.cancel(canceled.id)
    janitor = Janitor(room.store, room.outputs, RetentionSettings())
    await asyncio.sleep(0.01)
    await janitor.clean()
    assert [await room.outputs.exists(key) for key in keys] == [True, False, False, True]


async def test_a_fresh_checkpoint_is_left_alone(room: Darkroom) -> None:
    """Jobs that run renew theirs: most are never looked at."""
    key = checkpoint_key(new_job(room.lane).id)
    await room.outputs.put(key, b"x", "application/octet-stream")
    await Janitor(room.store, room.outputs, RetentionSettings()).clean()
    assert await room.outputs.exists(key)
    walked: Sequence[str] = [key for keys in [k async for k in room.outputs.walk("checkpoints", 0)] for key in keys]
    assert walked == [key]
