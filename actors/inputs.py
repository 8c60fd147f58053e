"""Fetches the pictures that a job begins from."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from actors.engine.errors import InvalidRequestError
from actors.storing import OutputsUnavailableError
from jobstore.errors import OutputDamagedError, OutputNotFoundError
from jobstore.inputs import get_input
from jobstore.job import Job
from jobstore.outputs import Outputs
from jobstore.pictures import UnreadablePictureError, decode

if TYPE_CHECKING:
    from PIL.Image import Image


class Inputs(NamedTuple):
    """What a render begins from; the mask is white where the picture is to change."""

    image: Image | None = None
    mask: Image | None = None


async def fetch_inputs(outputs: Outputs, job: Job) -> Inputs:
    """The job's input pictures, decoded.

    Raises InvalidRequestError where one is gone or damaged, OutputsUnavailableError where it can't be asked for.
    """
    return Inputs(*[await _fetch(outputs, job, digest) for digest in (job.request.image, job.request.mask)])


async def _fetch(outputs: Outputs, job: Job, digest: str | None) -> Image | None:
    if digest is None:
        return None
    try:
        return await asyncio.to_thread(decode, await get_input(outputs, job.id, digest))
    except (OutputNotFoundError, OutputDamagedError, UnreadablePictureError) as error:
        raise InvalidRequestError("image: the picture that the job begins from is not there any more") from error
    except Exception as error:  # the object store's errors differ by kind of storage
        raise OutputsUnavailableError(f"the input picture could not be read: {type(error).__name__}") from error
