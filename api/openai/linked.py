"""The pictures behind signed links: no key is asked for, the signature lets in."""

from __future__ import annotations

import time
from typing import Annotated, Any

from litestar import Request, Response, get
from litestar.params import PathParameter, QueryParameter

from api.auth import parse_job_id
from api.images import read_picture
from api.openai.links import PATH, Link
from api.openapi import ServicesDependency, answers
from api.problems import ProblemError
from api.services import Services
from api.waiting import CLIENT_GONE, unless_gone
from jobstore.job import PictureFormat

_Text = Annotated[str, QueryParameter(max_length=128, description="As the link has it.")]
_KEPT_S = 3600  # by browsers, at most


@get(
    f"{PATH}/{{job_id:str}}/{{index:str}}",
    media_type="image/png",
    summary="Fetch a picture by its link",
    responses=answers(403, 404, 503),
)
async def read_linked(
    job_id: Annotated[str, PathParameter(description="The job's id, a UUID.", schema_extra={"format": "uuid"})],
    index: Annotated[str, PathParameter(description="Which picture, from 0.", pattern=r"^[0-9]+\Z")],
    request: Request[Any, Any, Any],
    services: ServicesDependency,
    expires: _Text = "",
    signature: _Text = "",
    format: _Text = "",
    compression: _Text = "",
) -> Response[bytes]:
    """The picture's file. A link that was changed, or is past its time, is a 403."""
    wanted = _number(index), _number(expires)
    link = Link(job_id=parse_job_id(job_id), index=wanted[0], expires=wanted[1], format=format, compression=compression)
    if min(wanted) < 0 or not await services.links.counts(link, signature):
        raise ProblemError(403, "invalid_link", "this link is not one that was given out, or its time has passed")
    answer = await unless_gone(request, _picture(services, link), None)
    return Response(b"", status_code=CLIENT_GONE, media_type="image/png") if answer is None else answer


async def _picture(services: Services, link: Link) -> Response[bytes]:
    job = await services.store.get(link.job_id)
    picture = next((picture for picture in job.pictures if picture.index == link.index), None)
    if picture is None:
        raise ProblemError(404, "image_not_found", "the job has no such picture")
    format = PictureFormat(link.format) if link.format else None
    data = await read_picture(services.outputs, picture)
    if format is not None:
        compression = int(link.compression) if link.compression else None
        data = await services.pixels.turned_for_link(picture, data, format, compression)
    media_type = format.media_type if format else picture.media_type
    name = f"{job.id}-{picture.index}.{media_type.removeprefix('image/')}"
    headers = {
        "Cache-Control": f"private, max-age={max(0, min(_KEPT_S, link.expires - int(time.time())))}",
        "Cross-Origin-Resource-Policy": "cross-origin",
        "Content-Disposition": f'inline; filename="{name}"',
    }
    return Response(data, headers=headers, media_type=media_type)


def _number(text: str) -> int:
    """A number as links have it; -1 for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else -1
