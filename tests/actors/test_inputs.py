"""Jobs that begin from a picture, through a worker and the real engine."""

from __future__ import annotations

import io

from PIL import Image

from jobstore.inputs import digest_of, put_inputs
from jobstore.job import Job, JobState
from jobstore.outputs import get_whole
from jobstore.pictures import decode
from tests.actors.harness import Darkroom, new_job


def png(image: Image.Image) -> bytes:
    """A picture's file."""
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


BLUE = png(Image.new("RGB", (64, 64), (20, 40, 230)))
LEFT = Image.new("L", (64, 64), 0)
LEFT.paste(255, (0, 0, 32, 64))


async def submitted(darkroom: Darkroom, *, masked: bool = False, stored: bool = True) -> Job:
    """A job that begins from a blue picture, at its end."""
    files = {digest_of(data): data for data in (BLUE, *([png(LEFT)] if masked else []))}
    image, mask = [*files, None][:2]
    new = new_job(darkroom.lane, prompt="a white background", image=image, mask=mask, strength=0.7, steps=4)
    if stored:
        await put_inputs(darkroom.outputs, new.id, files)
    job = await darkroom.store.submit(new)
    darkroom.ring()
    return await darkroom.wait(job.id)


async def picture(darkroom: Darkroom, job: Job) -> Image.Image:
    """The job's picture; it must have one."""
    assert job.state is JobState.SUCCEEDED, job.error
    return decode(await get_whole(darkroom.outputs, job.pictures[0])).convert("RGB")


def blueness(image: Image.Image, box: tuple[int, int, int, int]) -> float:
    """How much more blue than red there is, on average."""
    small = image.crop(box).resize((1, 1), Image.Resampling.BOX).getpixel((0, 0))
    assert isinstance(small, tuple)
    return float(small[2] - small[0])


async def test_a_render_begins_from_its_picture(darkroom: Darkroom) -> None:
    """What the prompt alone would not give shines through; only under the mask it is gone."""
    await darkroom.start()
    whole = await picture(darkroom, await submitted(darkroom))
    assert blueness(whole, (0, 0, 64, 64)) > 40
    masked = await picture(darkroom, await submitted(darkroom, masked=True))
    assert blueness(masked, (40, 0, 64, 64)) > 100


async def test_a_job_whose_picture_is_gone_fails_with_words(darkroom: Darkroom) -> None:
    """Once: another attempt would not find it either."""
    await darkroom.start()
    job = await submitted(darkroom, stored=False)
    assert (job.state, job.attempts) == (JobState.FAILED, 1)
    assert job.error is not None
    assert (job.error.code, "not there any more" in job.error.message) == ("invalid_request", True)
