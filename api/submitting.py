"""Accepting a job: found in the cache, joined to a render in flight, or queued with a bell."""

from __future__ import annotations

import asyncio
import hashlib

import msgspec

from api.resolve import with_seed
from api.services import Services
from jobstore.errors import OutputDamagedError, OutputNotFoundError
from jobstore.job import CacheMode, CacheOutcome, Job, JobState, NewJob, Picture
from jobstore.outputs import Outputs, check_whole, get_whole, picture_key
from jobstore.pictures import UnreadablePictureError, transcode
from jobstore.protocol import CachedPictures
from safelight.telemetry import get_logger
from safelight.telemetry.metrics import JOBS_SUBMITTED

_log = get_logger(__name__)


async def accept(services: Services, new: NewJob, *, seed_drawn: bool) -> Job:
    """Submit ``new``; a bell rings when a worker has something to do."""
    new, pictures = await _from_cache(services, new, seed_drawn=seed_drawn)
    job = await services.store.submit(new, pictures)
    if job.state is JobState.QUEUED and job.cache is not CacheOutcome.JOINED:
        services.bell.ring(job.lane)
    JOBS_SUBMITTED.labels(job.request.model, job.cache.value).inc()
    _log.info("job accepted", action="jobs.accepted", job_id=str(job.id), state=job.state.value, cache=job.cache.value)
    return job


async def _from_cache(services: Services, new: NewJob, *, seed_drawn: bool) -> tuple[NewJob, tuple[Picture, ...]]:
    """The job and the pictures that it needn't wait for; none where the cache has none, or none that can be used.

    An entry whose pictures are purged or damaged is dropped. Where the outputs can't be asked the job is queued: the
    cache is a help, not a condition.
    """
    cached = await _look_up(services, new)
    if cached is None:
        return new, ()
    found = new
    if seed_drawn and cached.fingerprint != new.fingerprint:
        found = with_seed(new, cached.pictures[0].seed, services.settings)
    try:
        pictures = [await _in_format(services.outputs, picture, found) for picture in cached.pictures]
    except (OutputNotFoundError, OutputDamagedError, UnreadablePictureError) as error:
        _log.warning("cached pictures dropped", action="jobs.cache_dropped", error=type(error).__name__)
        await services.store.forget_cached(cached.fingerprint)
        return new, ()
    except Exception as error:  # the drivers' errors differ by kind of outputs
        _log.warning("cached pictures not read", action="jobs.cache_unread", error=type(error).__name__)
        return new, ()
    return found, tuple(pictures)


async def _look_up(services: Services, new: NewJob) -> CachedPictures | None:
    if not new.request.cache.reads or new.request.start_at is not None:
        return None
    cached = await services.store.find_cached(new.fingerprint)
    if cached is None and new.request.cache is CacheMode.ANY:
        cached = await services.store.find_cached_any(new.seedless_fingerprint)
    return cached if cached is not None and cached.pictures else None


async def _in_format(outputs: Outputs, picture: Picture, new: NewJob) -> Picture:
    """The picture as it lies there, or a copy of it in the job's file format under the job's own key."""
    wanted = new.request.format
    if picture.media_type == wanted.media_type:
        await check_whole(outputs, picture)
        return picture
    data = await asyncio.to_thread(transcode, await get_whole(outputs, picture), wanted)
    key = picture_key(new.id, 0, picture.index, wanted)
    await outputs.put(key, data, wanted.media_type)
    digest = hashlib.sha256(data).hexdigest()
    return msgspec.structs.replace(picture, key=key, sha256=digest, size_bytes=len(data), media_type=wanted.media_type)
