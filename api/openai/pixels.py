"""Work on pixels beside the event loop: a bounded number of threads, so that no burst of pictures takes all memory."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

from api.problems import ProblemError
from api.room import Room
from jobstore.job import Picture, PictureFormat
from jobstore.pictures import transcode

T = TypeVar("T")

_THREADS = 2
_UPLOADS = _THREADS  # whose pictures, of 100 MB each, are unpacked at a time
_UPLOAD_S = 60.0  # for which a picture waits until its key has no other that is unpacked
_UPLOAD_BYTES = 192_000_000  # of large bodies that are read, with what is decoded of them
_SMALL_UPLOAD_BYTES = 64_000_000  # of those that are no larger than other bodies
_PREPARED_BYTES = 256_000_000  # of pictures that were got ready and are not stored yet
_ANSWER_BYTES = 256_000_000  # of files that are put together into answers, in all their forms
_LINKS = 8  # whose pictures are turned, or wait for it, at a time
_KEPT_BYTES = 64_000_000
_BUSY = {"Retry-After": "2"}

_Turned = tuple[str, PictureFormat, int | None]


class PixelWork:
    """Encodes and decodes pictures for one API process. ``uploads`` is held while one is taken in.

    ``bodies`` is the room for uploads from before their first byte is read, ``small_bodies`` that for those no larger
    than other bodies, ``prepared`` that for what was made of them until it is stored, ``answers`` that for pictures in
    base64. A key has half of each.

    What waits for a thread is dropped when its caller is canceled. Links open without a key: their pictures are turned
    in a thread of their own, before which few may wait.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="pixels")
        self._words = ThreadPoolExecutor(_THREADS, thread_name_prefix="answers")
        self._linked = ThreadPoolExecutor(1, thread_name_prefix="links")
        self._links = 0
        self._kept = RecentFiles(_KEPT_BYTES)
        self.uploads = Room(_UPLOADS, _UPLOAD_S, each=_UPLOADS // 2)
        self.bodies = Room(_UPLOAD_BYTES, each=_UPLOAD_BYTES // 2)
        self.small_bodies = Room(_SMALL_UPLOAD_BYTES, each=_SMALL_UPLOAD_BYTES // 2)
        self.prepared = Room(_PREPARED_BYTES, each=_PREPARED_BYTES // 2)
        self.answers = Room(_ANSWER_BYTES, each=_ANSWER_BYTES // 2)

    async def run(self, work: Callable[[], T]) -> T:
        """The result of ``work``, once a thread was free for it."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def write(self, work: Callable[[], T]) -> T:
        """The same for base64 and JSON, which take milliseconds: they wait for no picture that is turned."""
        return await asyncio.get_running_loop().run_in_executor(self._words, work)

    async def turned(self, picture: Picture, data: bytes, format: PictureFormat, compression: int | None) -> bytes:
        """The picture's file in another format."""
        return await self.run(lambda: self._turn((picture.sha256, format, compression), data))

    async def turned_for_link(
        self, picture: Picture, data: bytes, format: PictureFormat, compression: int | None
    ) -> bytes:
        """The same for whoever has a link. Raises ProblemError where too many wait."""
        if self._links >= _LINKS:
            detail = "too many pictures are fetched by links at the moment"
            raise ProblemError(503, "unavailable", detail, headers=_BUSY)
        self._links += 1
        try:
            work = (picture.sha256, format, compression), data
            return await asyncio.get_running_loop().run_in_executor(self._linked, self._turn, *work)
        finally:
            self._links -= 1

    def _turn(self, wanted: _Turned, data: bytes) -> bytes:
        known = self._kept.find(wanted)
        if known is None:
            known = transcode(data, *wanted[1:])
            self._kept.keep(wanted, known)
        return known

    def close(self) -> None:
        """End the threads; what waits is dropped."""
        for threads in (self._threads, self._words, self._linked):
            threads.shutdown(wait=False, cancel_futures=True)


class RecentFiles:
    """The files that were made last, up to so many bytes in all. For any thread."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._files: OrderedDict[_Turned, bytes] = OrderedDict()
        self._lock = Lock()

    def find(self, wanted: _Turned) -> bytes | None:
        """The file, if it is still there."""
        with self._lock:
            if wanted not in self._files:
                return None
            self._files.move_to_end(wanted)
            return self._files[wanted]

    def keep(self, wanted: _Turned, data: bytes) -> None:
        """Keep a file, and drop those that were asked for longest ago where there is no room."""
        with self._lock:
            self._bytes += len(data) - len(self._files.pop(wanted, b""))
            self._files[wanted] = data
            while self._bytes > self._most:
                self._bytes -= len(self._files.popitem(last=False)[1])
