"""Pictures that an earlier job left in the cache, for a request that they answer."""

from __future__ import annotations

import asyncio
import hashlib

import msgspec

from jobstore.errors import OutputDamagedError, OutputNotFoundError
from jobstore.job import CacheMode, Job, NewJob, Picture
from jobstore.outputs import Outputs, check_whole, get_whole, picture_key
from jobstore.pictures import UnreadablePictureError, transcode
from jobstore.protocol import CachedPictures, JobStore
from safelight.telemetry import get_logger

_log = get_logger(__name__)


async def find_pictures(store: JobStore, outputs: Outputs, job: Job | NewJob, token: int) -> CachedPictures | None:
    """The pictures that ``job`` needn't wait for, in its own file format; None where it must be rendered.

    Pictures that lie there in another format are copied under ``token`` of the job. An entry whose pictures were purged
    from the outputs, or are damaged, is dropped. Never raises: where the store or the outputs can't be asked there is
    nothing to be found, for the cache is a help and no condition.
    """
    try:
        cached = await _look_up(store, job)
        if cached is None or not cached.pictures:
            return None
        try:
            pictures = [await _in_format(outputs, picture, job, token) for picture in cached.pictures]
        except (OutputNotFoundError, OutputDamagedError, UnreadablePictureError) as error:
            _log.warning("cached pictures dropped", action="cached.dropped", error=type(error).__name__)
            await store.forget_cached(cached.fingerprint)
            return None
    except Exception as error:  # the drivers' errors differ by kind of store and outputs
        _log.warning("cache not asked", action="cached.failed", error=type(error).__name__)
        return None
    return msgspec.structs.replace(cached, pictures=tuple(pictures))


async def _look_up(store: JobStore, job: Job | NewJob) -> CachedPictures | None:
    if not job.request.cache.reads:
        return None
    cached = await store.find_cached(job.fingerprint)
    if cached is None and job.request.cache is CacheMode.ANY:
        cached = await store.find_cached_any(job.seedless_fingerprint)
    return cached


async def _in_format(outputs: Outputs, picture: Picture, job: Job | NewJob, token: int) -> Picture:
    """The picture as it lies there, or a copy of it in the job's file format under the job's own key."""
    wanted = job.request.format
    if picture.media_type == wanted.media_type:
        await check_whole(outputs, picture)
        return picture
    data = await asyncio.to_thread(transcode, await get_whole(outputs, picture), wanted)
    key = picture_key(job.id, token, picture.index, wanted)
    await outputs.put(key, data, wanted.media_type)
    digest = hashlib.sha256(data).hexdigest()
    return msgspec.structs.replace(picture, key=key, sha256=digest, size_bytes=len(data), media_type=wanted.media_type)
