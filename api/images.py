"""The pictures of a job."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, Response, get
from litestar.params import PathParameter

from api.auth import LOOK, find_job
from api.openapi import JobId, ServicesDependency, answers, picture_answers
from api.problems import ProblemError
from api.services import Services
from jobstore.errors import OutputDamagedError, OutputNotFoundError
from jobstore.job import Job, JobState, Picture
from jobstore.outputs import Outputs, get_whole
from safelight.telemetry import get_logger

_log = get_logger(__name__)

CACHING = "private, max-age=31536000, immutable"

Index = Annotated[str, PathParameter(description="Which picture, from 0.", pattern=r"^[0-9]+\Z")]


@get(
    "/jobs/{job_id:str}/images/{index:str}",
    opt=LOOK,
    summary="Fetch a picture",
    media_type="image/png",
    responses=answers(404, 409) | picture_answers(),
)
async def read_image(
    job_id: JobId, index: Index, request: Request[Any, Any, Any], services: ServicesDependency
) -> Response[bytes]:
    """The picture's file, cacheable for ever; 409 while the job has not succeeded, 304 to a matching If-None-Match."""
    return await picture_answer(request, services, await find_job(request, job_id), index)


async def picture_answer(request: Request[Any, Any, Any], services: Services, job: Job, index: str) -> Response[bytes]:
    """What a request for that picture of the job is answered. Raises ProblemError."""
    picture = picture_of(job, index)
    headers = {"ETag": f'"{picture.sha256}"', "Cache-Control": CACHING}
    if has_already(request.headers.get("if-none-match", ""), picture.sha256):
        return Response(b"", status_code=304, headers=headers, media_type=picture.media_type)
    data = await read_picture(services.outputs, picture)
    name = f"{job.id}-{picture.index}.{picture.media_type.removeprefix('image/')}"
    headers["Content-Disposition"] = f'inline; filename="{name}"'
    return Response(data, headers=headers, media_type=picture.media_type)


async def read_picture(outputs: Outputs, picture: Picture) -> bytes:
    """The picture's file. Raises ProblemError where it is gone, damaged, or can't be asked for."""
    try:
        return bytes(await get_whole(outputs, picture))
    except OutputNotFoundError:
        raise ProblemError(404, "image_purged", "the picture was deleted from the outputs") from None
    except OutputDamagedError as error:
        _log.error("stored picture damaged", action="images.damaged", key=picture.key, reason=str(error))
        raise ProblemError(500, "image_damaged", "the stored picture is damaged") from None
    except Exception as error:  # the drivers' errors differ by kind of outputs
        _log.error("outputs can't be read", action="images.unavailable", error=type(error).__name__)
        detail = "the outputs can't be reached at the moment"
        raise ProblemError(503, "unavailable", detail, headers={"Retry-After": "5"}) from None


def picture_of(job: Job, index: str) -> Picture:
    """The job's picture of that number. Raises ProblemError."""
    if job.state is not JobState.SUCCEEDED:
        raise ProblemError(409, "job_not_succeeded", f"the job is {job.state.value}: it has no pictures")
    for picture in job.pictures:
        if str(picture.index) == index:
            return picture
    raise ProblemError(404, "image_not_found", f"the job has pictures 0 to {len(job.pictures) - 1}")


def has_already(condition: str, digest: str) -> bool:
    """Whether an If-None-Match names the file (RFC 9110, 13.1.2): one of its tags, or a star; weak comparison."""
    tags = {tag.strip().removeprefix("W/") for tag in condition.split(",")}
    return "*" in tags or f'"{digest}"' in tags
