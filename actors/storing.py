"""From rendered images to pictures in the outputs."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from actors.engine import RenderResult
from jobstore.job import Picture
from jobstore.ledger import NOTHING_SPENT, Spent
from jobstore.outputs import Outputs, picture_key
from jobstore.pictures import encode, infotext
from jobstore.protocol import Lease
from safelight import __version__
from safelight.telemetry import get_logger

if TYPE_CHECKING:
    from PIL.Image import Image

_log = get_logger(__name__)


class OutputsUnavailableError(Exception):
    """The pictures could not be written to the outputs (a full disk, no network).

    ``spent`` is what rendering them took, ``size_bytes`` how long the one was that could not be written.
    """

    spent: Spent = NOTHING_SPENT
    size_bytes: int = 0


async def store_pictures(
    outputs: Outputs, lease: Lease, result: RenderResult, *, revision: str, metadata: bool, lossy: str = ""
) -> tuple[Picture, ...]:
    """Encode the images and put them under the lease's own keys. Raises OutputsUnavailableError.

    ``lossy`` is what the metadata says of a plan that is not exact.
    """
    texts = _infotexts(lease, result, revision, lossy) if metadata else [None] * len(result.images)
    return tuple(
        [await _store(outputs, lease, index, image, texts[index]) for index, image in enumerate(result.images)]
    )


async def discard_pictures(outputs: Outputs, lease: Lease, pictures: tuple[Picture, ...]) -> None:
    """Delete what was put under a lease that is lost, as far as that works: nothing refers to it.

    Pictures found in the cache lie under another job's keys and stay.
    """
    format = lease.job.request.format
    own = [
        picture.key
        for picture in pictures
        if picture.key == picture_key(lease.job.id, lease.token, picture.index, format)
    ]
    try:
        await outputs.delete(own)
    except Exception as error:  # what is left lies there until the outputs are purged by age
        _log.info("pictures not deleted", action="storing.discard_failed", error=type(error).__name__)


def _infotexts(lease: Lease, result: RenderResult, revision: str, lossy: str) -> list[str | None]:
    request = lease.job.request
    return [
        infotext(request, seed=seed, sampler=result.sampler, revision=revision, version=__version__, lossy=lossy)
        for seed in request.seeds
    ]


async def _store(outputs: Outputs, lease: Lease, index: int, image: Image, text: str | None) -> Picture:
    request = lease.job.request
    data = await asyncio.to_thread(encode, image, request.format, text)
    key = picture_key(lease.job.id, lease.token, index, request.format)
    try:
        await outputs.put(key, data, request.format.media_type)
    except Exception as error:  # the object store's errors differ by kind of storage
        failure = OutputsUnavailableError(f"the picture could not be stored: {type(error).__name__}")
        failure.size_bytes = len(data)
        raise failure from error
    return Picture(
        index=index,
        key=key,
        seed=request.seeds[index],
        width=image.width,
        height=image.height,
        sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
        media_type=request.format.media_type,
    )
