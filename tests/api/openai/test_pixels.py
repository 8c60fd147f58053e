"""Work on pixels: what waits for what, and what is dropped."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Iterator

import pytest
from PIL import Image

from api.openai.pixels import PixelWork, RecentFiles
from api.problems import ProblemError
from jobstore.job import Picture, PictureFormat
from jobstore.pictures import encode

DATA = encode(Image.new("RGB", (8, 8), "red"), PictureFormat.PNG)
PICTURE = Picture(
    index=0, key="k", seed=1, width=8, height=8, sha256=hashlib.sha256(DATA).hexdigest(), size_bytes=len(DATA),
    media_type="image/png",
)  # fmt: skip


@pytest.fixture
def pixels() -> Iterator[PixelWork]:
    """Threads that end with the test."""
    pixels = PixelWork()
    yield pixels
    pixels.close()


async def test_answers_are_written_while_pictures_are_turned(pixels: PixelWork) -> None:
    """However many of them."""
    release = threading.Event()
    turning = [asyncio.create_task(pixels.run(release.wait)) for _ in range(5)]
    assert await pixels.write(lambda: "written") == "written"
    release.set()
    await asyncio.gather(*turning)


async def test_links_take_no_thread_from_others_and_few_wait(pixels: PixelWork) -> None:
    """The rest is refused, and told when to come again; who goes makes room, and is not worked for."""
    release = threading.Event()
    pixels._linked.submit(release.wait)
    waiting = [
        asyncio.create_task(pixels.turned_for_link(PICTURE, DATA, PictureFormat.JPEG, quality)) for quality in range(8)
    ]
    await asyncio.sleep(0)
    with pytest.raises(ProblemError) as refused:
        await pixels.turned_for_link(PICTURE, DATA, PictureFormat.JPEG, 50)
    assert (refused.value.status_code, refused.value.headers) == (503, {"Retry-After": "2"})
    assert (await pixels.turned(PICTURE, DATA, PictureFormat.JPEG, 50)).startswith(b"\xff\xd8")
    for task in waiting[1:]:
        task.cancel()
    await asyncio.wait(waiting[1:])
    release.set()
    assert (await waiting[0]).startswith(b"\xff\xd8")
    assert (await pixels.turned_for_link(PICTURE, DATA, PictureFormat.JPEG, 50)).startswith(b"\xff\xd8")
    made = [quality for quality in range(8) if pixels._kept.find((PICTURE.sha256, PictureFormat.JPEG, quality))]
    assert made == [0]


def test_recent_files_are_bounded() -> None:
    """By their bytes: the one that was asked for longest ago goes first."""
    files = RecentFiles(10)
    names = [("a", PictureFormat.PNG, quality) for quality in range(4)]
    files.keep(names[0], b"12345")
    files.keep(names[1], b"12345")
    assert files.find(names[0]) == b"12345"
    files.keep(names[2], b"123")
    assert (files.find(names[0]), files.find(names[1])) == (b"12345", None)
    files.keep(names[2], b"12345")
    assert files.find(names[0]) == b"12345"
    files.keep(names[3], b"x" * 11)
    assert [files.find(name) for name in names] == [None] * 4
