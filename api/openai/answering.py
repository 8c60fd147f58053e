"""From a job that has succeeded to the answer with its pictures."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager

import msgspec

from api.images import read_picture
from api.openai.schemas import Behind, ImageData, ImagesAnswer
from api.room import Held
from api.services import Services
from api.views import cost_view
from jobstore.job import AnswerForm, Job, Picture

USUAL = AnswerForm()
_FORMS = 4  # of a file at once: itself, in base64, in JSON, in the frame that is sent


async def images_answer(services: Services, job: Job, base_url: str) -> ImagesAnswer:
    """The answer with all pictures of the job. Raises ProblemError where one can't be read."""
    form = job.request.answer or USUAL
    request = job.request
    return ImagesAnswer(
        created=int((job.finished_at or job.created_at).timestamp()),
        data=tuple([await _image(services, job, picture, form, base_url) for picture in job.pictures]),
        output_format=form.format or request.format,
        quality=form.quality,
        size=f"{request.width}x{request.height}",
        safelight=Behind(
            job_id=job.id,
            model=request.model,
            seeds=tuple(picture.seed for picture in job.pictures),
            steps=request.steps,
            cache=job.cache,
            cost=cost_view(job),
            warnings=job.warnings,
        ),
    )


def room_for(services: Services, job: Job, pictures: Iterable[Picture]) -> AbstractAsyncContextManager[Held]:
    """Hold it while pictures of ``job`` are put into an answer. Raises ProblemError where its key has none."""
    return services.pixels.answers.take(_FORMS * sum(picture.size_bytes for picture in pictures), job.key_id)


async def encoded(services: Services, answer: object) -> bytes:
    """The answer as JSON: megabytes, so not on the event loop."""
    return await services.pixels.write(lambda: msgspec.json.encode(answer))


async def base64_file(services: Services, picture: Picture, form: AnswerForm) -> str:
    """The picture's file in base64 (RFC 4648, 4). Raises ProblemError where it can't be read."""
    data = await read_picture(services.outputs, picture)
    if form.format is not None:
        data = await services.pixels.turned(picture, data, form.format, form.compression)
    return await services.pixels.write(lambda: b64encode(data).decode())


async def _image(services: Services, job: Job, picture: Picture, form: AnswerForm, base_url: str) -> ImageData:
    if not form.links:
        return ImageData(b64_json=await base64_file(services, picture, form))
    path = await services.links.path(job.id, picture.index, form.format or "", form.compression)
    return ImageData(url=base_url + path)
