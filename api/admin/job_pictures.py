"""The pictures of jobs for who is signed in: browsers send no key with them."""

from __future__ import annotations

import io

from litestar import Response, get
from litestar.params import FromPath

from api.admin.rendering import HEADERS, AnyRequest
from api.auth import parse_job_id
from api.images import has_already, picture_answer, picture_of, read_picture
from api.openapi import ServicesDependency
from api.problems import ProblemError
from jobstore.job import Picture
from jobstore.pictures import UnreadablePictureError, decode

# Asked for anew each time: whoever signed out, or uses the browser next, doesn't see them.
_CACHING = "private, no-cache"
_SIDE = 96
_QUALITY = 80
_MOST_PIXELS = 2048 * 2048
_MOST_BYTES = 16_000_000


@get("/jobs/{job_id:str}/images/{index:str}", media_type="image/png")
async def whole(
    job_id: FromPath[str], index: FromPath[str], request: AnyRequest, services: ServicesDependency
) -> Response[bytes]:
    """The picture's file, as ``GET /v1/jobs/{id}/images/{index}`` answers it."""
    job = await services.store.get(parse_job_id(job_id))
    answer = await picture_answer(request, services, job, index)
    answer.headers.update({**HEADERS, "Cache-Control": _CACHING})
    return answer


@get("/jobs/{job_id:str}/images/{index:str}/small", media_type="image/webp")
async def small(
    job_id: FromPath[str], index: FromPath[str], request: AnyRequest, services: ServicesDependency
) -> Response[bytes]:
    """The picture within 96 pixels, for lists of many."""
    picture = picture_of(await services.store.get(parse_job_id(job_id)), index)
    headers = {**HEADERS, "ETag": f'"{picture.sha256}"', "Cache-Control": _CACHING}
    if has_already(request.headers.get("if-none-match", ""), picture.sha256):
        return Response(b"", status_code=304, headers=headers, media_type="image/webp")
    if not is_cheap(picture):
        raise ProblemError(404, "image_not_found", "the picture is too large to be made small for a list")
    data = await read_picture(services.outputs, picture)
    try:
        shrunk = await services.pixels.run(lambda: _shrunk(data))
    except UnreadablePictureError:
        raise ProblemError(500, "image_damaged", "the stored picture is damaged") from None
    return Response(shrunk, headers=headers, media_type="image/webp")


def is_cheap(picture: Picture) -> bool:
    """Whether a list shows the picture: one that is large takes too long for something so small."""
    return picture.width * picture.height <= _MOST_PIXELS and picture.size_bytes <= _MOST_BYTES


def _shrunk(data: bytes) -> bytes:
    image = decode(data, _MOST_PIXELS).convert("RGB")
    image.thumbnail((_SIDE, _SIDE))
    stream = io.BytesIO()
    image.save(stream, format="webp", quality=_QUALITY)
    return stream.getvalue()
