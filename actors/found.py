"""Pictures that another job left in the cache while this one waited."""

from __future__ import annotations

import asyncio
import hashlib

from jobstore.errors import OutputDamagedError, OutputNotFoundError
from jobstore.job import CacheMode, CacheOutcome, Job, Picture
from jobstore.outputs import Outputs, check_whole, get_whole, picture_key
from jobstore.pictures import UnreadablePictureError, transcode
from jobstore.protocol import CachedPictures, Finish, JobStore, Lease
from safelight.telemetry import get_logger

_log = get_logger(__name__)


async def find_finish(store: JobStore, outputs: Outputs, lease: Lease) -> Finish | None:
    """The finish of a job whose pictures exist already, in its own file format; None if it must be rendered.

    An entry whose pictures were purged from the outputs, or can't be read, is dropped. Where the store or the outputs
    can't be asked the job is rendered: the cache is a help, not a condition.
    """
    try:
        cached = await _look_up(store, lease.job)
        return None if cached is None else await _take(store, outputs, lease, cached)
    except Exception as error:  # the drivers' errors differ by kind of store and outputs
        _log.warning("cache not asked", action="found.failed", error=type(error).__name__)
        return None


async def _take(store: JobStore, outputs: Outputs, lease: Lease, cached: CachedPictures) -> Finish | None:
    try:
        pictures = [await _in_format(outputs, lease, picture) for picture in cached.pictures]
    except (OutputNotFoundError, OutputDamagedError, UnreadablePictureError):
        await store.forget_cached(cached.fingerprint)
        return None
    return Finish(pictures=tuple(pictures), cache=CacheOutcome.HIT)


async def _look_up(store: JobStore, job: Job) -> CachedPictures | None:
    if not job.request.cache.reads:
        return None
    cached = await store.find_cached(job.fingerprint)
    if cached is None and job.request.cache is CacheMode.ANY:
        cached = await store.find_cached_any(job.seedless_fingerprint)
    return cached


async def _in_format(outputs: Outputs, lease: Lease, picture: Picture) -> Picture:
    """The picture as it lies there, or a copy of it in the job's file format under the job's own key."""
    wanted = lease.job.request.format
    if picture.media_type == wanted.media_type:
        await check_whole(outputs, picture)
        return picture
    data = await asyncio.to_thread(transcode, await get_whole(outputs, picture), wanted)
    key = picture_key(lease.job.id, lease.token, picture.index, wanted)
    await outputs.put(key, data, wanted.media_type)
    return Picture(
        index=picture.index,
        key=key,
        seed=picture.seed,
        width=picture.width,
        height=picture.height,
        sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
        media_type=wanted.media_type,
    )
