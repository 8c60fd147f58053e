"""Accepting a job: found in the cache, joined to a render in flight, or queued with a bell."""

from __future__ import annotations

import asyncio
import hashlib

import msgspec

from api.resolve import with_seed
from api.services import Services
from jobstore.errors import OutputNotFoundError
from jobstore.job import CacheMode, CacheOutcome, Job, JobState, NewJob, Picture
from jobstore.outputs import Outputs, picture_key
from jobstore.pictures import transcode
from jobstore.protocol import CachedPictures
from safelight.telemetry import get_logger
from safelight.telemetry.metrics import JOBS_SUBMITTED

_log = get_logger(__name__)


async def accept(services: Services, new: NewJob, *, seed_drawn: bool) -> Job:
    """Submit ``new``; a bell rings when a worker has something to do."""
    cached = await _find(services, new)
    pictures: tuple[Picture, ...] = ()
    if cached is not None:
        if seed_drawn and cached.fingerprint != new.fingerprint:
            new = with_seed(new, cached.pictures[0].seed, services.settings)
        pictures = await _in_format(services.outputs, cached, new)
    job = await services.store.submit(new, pictures)
    if job.state is JobState.QUEUED and job.cache is not CacheOutcome.JOINED:
        services.bell.ring(job.lane)
    JOBS_SUBMITTED.labels(job.request.model, job.cache.value).inc()
    _log.info("job accepted", action="jobs.accepted", job_id=str(job.id), state=job.state.value, cache=job.cache.value)
    return job


async def _find(services: Services, new: NewJob) -> CachedPictures | None:
    """The cache's answer, if every picture of it still lies in the outputs; an entry with holes is dropped."""
    if not new.request.cache.reads or new.request.start_at is not None:
        return None
    cached = await services.store.find_cached(new.fingerprint)
    if cached is None and new.request.cache is CacheMode.ANY:
        cached = await services.store.find_cached_any(new.seedless_fingerprint)
    if cached is None:
        return None
    there = await asyncio.gather(*(services.outputs.exists(picture.key) for picture in cached.pictures))
    if not there or not all(there):
        await services.store.forget_cached(cached.fingerprint)
        return None
    return cached


async def _in_format(outputs: Outputs, cached: CachedPictures, new: NewJob) -> tuple[Picture, ...]:
    """The pictures in the job's file format; () when one was purged since it was looked for."""
    try:
        return tuple([await _one_in_format(outputs, picture, new) for picture in cached.pictures])
    except OutputNotFoundError:
        return ()


async def _one_in_format(outputs: Outputs, picture: Picture, new: NewJob) -> Picture:
    wanted = new.request.format
    if picture.media_type == wanted.media_type:
        return picture
    data = await asyncio.to_thread(transcode, await outputs.get(picture.key), wanted)
    key = picture_key(new.id, 0, picture.index, wanted)
    await outputs.put(key, data, wanted.media_type)
    digest = hashlib.sha256(data).hexdigest()
    return msgspec.structs.replace(picture, key=key, sha256=digest, size_bytes=len(data), media_type=wanted.media_type)
