"""Where the pictures that a job begins from lie in the outputs, and which of them nobody needs any more.

Each job has its own copies, under its own id, so that they go when the job is done with them and no two jobs have to
agree on that. They are put there before the job is submitted: a worker may claim it in the same moment.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from uuid import UUID

from jobstore.errors import JobNotFoundError, OutputDamagedError
from jobstore.job import JobState
from jobstore.outputs import Outputs
from jobstore.protocol import JobStore

_PREFIX = "inputs"
_MEDIA_TYPE = "image/png"
_DONE = (JobState.SUCCEEDED, JobState.CANCELED)  # a failed or dead job may be redriven


def input_key(job_id: UUID, digest: str) -> str:
    """Where an input picture of a job lies."""
    return f"{_PREFIX}/{job_id}/{digest}"


def digest_of(data: bytes) -> str:
    """What an input picture's file is called by."""
    return hashlib.sha256(data).hexdigest()


async def put_inputs(outputs: Outputs, job_id: UUID, files: Mapping[str, bytes]) -> None:
    """Store PNG files by their digests. Raises what ``outputs.put`` raises."""
    await asyncio.gather(*(outputs.put(input_key(job_id, name), data, _MEDIA_TYPE) for name, data in files.items()))


async def get_input(outputs: Outputs, job_id: UUID, digest: str) -> bytes:
    """An input picture's file. Raises OutputNotFoundError, OutputDamagedError."""
    key = input_key(job_id, digest)
    data = await outputs.get(key)
    if digest_of(data) != digest:
        raise OutputDamagedError(f"{key} is not what was put there")
    return data


async def delete_inputs(outputs: Outputs, job_id: UUID, digests: Sequence[str]) -> None:
    """Delete input pictures of a job that needs them no more."""
    await outputs.delete([input_key(job_id, digest) for digest in digests])


async def stale_inputs(store: JobStore, outputs: Outputs, older_than_s: float) -> AsyncIterator[Sequence[str]]:
    """The keys of inputs of that age whose job is done with them, or is gone, in batches."""
    async for keys in outputs.walk(_PREFIX, older_than_s):
        jobs = {key: key.split("/")[1] for key in keys if key.count("/") == 2}
        stale = {job for job in set(jobs.values()) if await _is_done(store, job)}
        yield [key for key, job in jobs.items() if job in stale]


async def _is_done(store: JobStore, job_id: str) -> bool:
    try:
        job = await store.get(UUID(job_id))
    except JobNotFoundError:
        return True
    except ValueError:  # none of ours
        return False
    return job.state in _DONE
