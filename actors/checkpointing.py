"""The checkpoints of one render: what an earlier attempt left is fetched, what the engine gives is kept."""

from __future__ import annotations

import asyncio

from actors.engine.checkpoints import MAX_BYTES
from actors.leases import HeldJob
from actors.solitude import on_last_chance
from jobstore.checkpoints import MEDIA_TYPE, checkpoint_key
from jobstore.outputs import Outputs
from safelight.telemetry import get_logger
from safelight.telemetry.metrics import CHECKPOINTS

_log = get_logger(__name__)

_FETCH_S = 30.0
_KEEP_S = 3.0  # for the last one, at a stop: the lease must be handed back in time
_DELETE_S = 10.0


class Checkpointer:
    """Fetches, writes and deletes the checkpoint of a held job. Belongs to the actors' event loop, but for ``offer``.

    A checkpoint is a help and no condition: whatever fails here costs steps, never the render. It is overwritten by
    whoever holds the lease, and deleted when the job has ended; what is left behind by workers that die, the janitor
    finds.
    """

    def __init__(self, outputs: Outputs, held: HeldJob) -> None:
        self._outputs = outputs
        self._held = held
        self._loop = asyncio.get_running_loop()
        self._keys: set[str] = set()  # where something lies, or may lie
        self._newest: bytes | None = None
        self._writing: asyncio.Task[None] | None = None
        self._closed = False
        self._troubled = False

    async def fetch(self, max_rescues: int) -> bytes | None:
        """What an earlier attempt at the job left behind; None where there is nothing, or nothing to be trusted.

        On its last chance a job begins anew: the checkpoint may be what kills it.
        """
        job = self._held.lease.job
        if not (job.attempts > 1 or job.rescues or job.gpu_seconds):
            return None  # nobody has rendered it before
        key = checkpoint_key(job.id)
        self._keys.add(key)
        if on_last_chance(job, max_rescues) or 1 < job.max_attempts <= job.attempts:
            return None
        try:
            async with asyncio.timeout(_FETCH_S):
                size = await self._outputs.size(key)
                found = await self._outputs.get(key) if size is not None and size <= MAX_BYTES else None
        except Exception as error:  # the drivers' errors differ by kind of outputs
            self._complain("fetch", error)
            return None
        if found is not None:
            CHECKPOINTS.labels("fetched").inc()
            _log.info("going on from a checkpoint", action="checkpointing.fetched", size_bytes=len(found))
        return found

    def offer(self, data: bytes) -> None:
        """Take in what the engine gives, from any thread; returns at once. Only the newest is kept."""
        self._loop.call_soon_threadsafe(self._take, data)

    async def keep(self, data: bytes) -> None:
        """Write the last one, and wait for it a moment."""
        self._take(data)
        await self._settle(_KEEP_S)

    async def discard(self) -> None:
        """Leave nothing behind: the job has ended, or its checkpoint is of no use."""
        self._closed, self._newest = True, None
        await self._settle(_DELETE_S)
        try:
            async with asyncio.timeout(_DELETE_S):
                await self._outputs.delete(sorted(self._keys))
        except Exception as error:  # the janitor tries again
            self._complain("delete", error)

    def close(self) -> None:
        """Take no more."""
        self._closed, self._newest = True, None

    def _take(self, data: bytes) -> None:
        if self._closed or self._held.lost or self._held.cancel_requested:
            return
        self._newest = data
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        """Write until nothing newer has come: never two at once, so that an older one can't come last."""
        while (data := self._newest) is not None:
            self._newest = None
            key = checkpoint_key(self._held.job_id)
            self._keys.add(key)
            try:
                await self._outputs.put(key, data, MEDIA_TYPE)
            except Exception as error:  # the drivers' errors differ by kind of outputs
                self._complain("write", error)
            else:
                CHECKPOINTS.labels("written").inc()

    async def _settle(self, limit_s: float) -> None:
        if self._writing is not None:
            await asyncio.wait([self._writing], timeout=limit_s)

    def _complain(self, what: str, error: Exception) -> None:
        """Once a render: an interval later it would be the same again."""
        CHECKPOINTS.labels("failed").inc()
        if not self._troubled:
            _log.warning(f"checkpoint: {what} failed", action="checkpointing.failed", error=type(error).__name__)
        self._troubled = True
