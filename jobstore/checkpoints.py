"""Where the checkpoints of unfinished renders lie in the outputs, and which of them nobody will go on from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from uuid import UUID

from jobstore.errors import JobNotFoundError
from jobstore.outputs import Outputs
from jobstore.protocol import JobStore

_PREFIX = "checkpoints"
_SUFFIX = ".safetensors"
MEDIA_TYPE = "application/octet-stream"


def checkpoint_key(job_id: UUID) -> str:
    """Where a job's checkpoint lies: one place, whoever holds its lease.

    One that a lost lease wrote late is harmless: it tells no more than how far the same pictures had come.
    """
    return f"{_PREFIX}/{job_id}{_SUFFIX}"


async def stale_checkpoints(store: JobStore, outputs: Outputs, older_than_s: float) -> AsyncIterator[Sequence[str]]:
    """The keys of checkpoints of that age whose job has ended, or is gone, in batches."""
    async for keys in outputs.walk(_PREFIX, older_than_s):
        yield [key for key in keys if await _ended(store, key)]


async def _ended(store: JobStore, key: str) -> bool:
    try:
        job = await store.get(UUID(key.removeprefix(f"{_PREFIX}/").removesuffix(_SUFFIX)))
    except JobNotFoundError:
        return True
    except ValueError:  # none of ours
        return False
    return job.state.terminal
