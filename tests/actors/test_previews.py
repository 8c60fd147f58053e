"""Previews on their way from the engine to whoever watches."""

from __future__ import annotations

import asyncio
import io
import time
from uuid import uuid4

from PIL import Image

from actors.engine.request import Preview as Small
from actors.previewing import Previewer, encoded
from tests.actors.harness import Darkroom, GatedProgress
from tests.actors.standin import StandInEngine
from tests.engine.conftest import TIMEOUT_S


def small(step: int, *, index: int = 0, size: tuple[int, int] = (64, 48)) -> Small:
    """What the engine tells."""
    return Small(index=index, step=step, steps=8, image=Image.effect_noise(size, 80).convert("RGB"))


def arrived(channel: GatedProgress, count: int) -> None:
    """Wait for so many previews."""
    end = time.monotonic() + TIMEOUT_S
    while len(channel.previews) < count:
        assert time.monotonic() < end, "no preview came"
        time.sleep(0.01)


def test_a_preview_is_a_small_file() -> None:
    """Whatever the engine gives; no transparency, no metadata."""
    large = Image.effect_noise((1024, 512), 80).convert("RGBA")
    large.info["comment"] = b"secret"
    data = encoded(large)
    picture = Image.open(io.BytesIO(data))
    assert (picture.format, picture.size, picture.mode) == ("JPEG", (256, 128), "RGB")
    assert len(data) < 64 * 1024
    assert b"secret" not in data


def test_a_preview_that_can_t_be_encoded_costs_only_itself() -> None:
    """The next one is sent."""
    channel = GatedProgress()
    previewer = Previewer(channel)
    job_id = uuid4()
    previewer.offer(job_id, 1, Small(index=0, step=1, steps=8, image=Image.new("RGB", (0, 0))))
    previewer.offer(uuid4(), 1, small(2))
    arrived(channel, 1)
    assert channel.previews[0].step == 2
    previewer.close()


async def test_a_job_that_wants_previews_is_shown(room: Darkroom, standin: StandInEngine) -> None:
    """As often as it asked for, under its id and its lease."""
    await room.start()
    job = await room.submit(previews=3)
    handle = await asyncio.to_thread(standin.taken, 1)
    assert handle.watch.preview_every == 3
    assert handle.watch.on_preview is not None
    handle.watch.on_preview(small(3, index=1))
    await asyncio.to_thread(arrived, room.progress, 1)
    sent = room.progress.previews[0]
    assert (sent.job_id, sent.index, sent.step, sent.steps, sent.media_type) == (job.id, 1, 3, 8, "image/jpeg")
    assert sent.attempt > 0
    assert Image.open(io.BytesIO(sent.image)).size == (64, 48)
    standin.finish(handle)
    await room.wait(job.id)


async def test_a_job_that_wants_none_asks_for_none(room: Darkroom, standin: StandInEngine) -> None:
    """The engine makes none."""
    await room.start()
    await room.submit()
    assert (await asyncio.to_thread(standin.taken, 1)).watch.preview_every == 0


async def test_a_real_render_shows_itself(darkroom: Darkroom) -> None:
    """Every image, small pictures of what it is to be; at the end the picture itself."""
    await darkroom.start()
    job = await darkroom.submit(previews=1, steps=6, n=2)
    await darkroom.wait(job.id)
    shown = darkroom.progress.previews
    assert {preview.index for preview in shown} == {0, 1}
    assert all(0 < preview.step < 6 and preview.steps == 6 for preview in shown)
    assert {Image.open(io.BytesIO(preview.image)).size for preview in shown} == {(64, 64)}
