"""A worker that paints one colour for each job as soon as it is there, and does what prompts tell it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from PIL import Image

from jobstore.job import Job, JobError, JobRequest
from jobstore.protocol import Lease
from tests.api.site import LIMIT_S, Driver, Site

PAUSE_S = 0.02


def until(probe: Callable[[], Any]) -> Any:
    """The first truthy answer."""
    end = time.monotonic() + LIMIT_S
    while not (answer := probe()):
        assert time.monotonic() < end
        time.sleep(PAUSE_S)
    return answer


class Painter(Driver):
    """Prompts that begin with ``fail`` fail, with the code that they end with if any; others are painted.

    Previews come as often as the job asks for them. What was painted, and how often, is remembered.
    """

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.jobs: list[Job] = []
        self._stop = threading.Event()
        self._rests = False

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Take no job until the block ends."""
        self._rests = True
        try:
            yield
        finally:
            self._rests = False

    def resume(self) -> None:
        """Take jobs again."""
        self._rests = False

    @contextmanager
    def painting(self) -> Iterator[Painter]:
        """Work until the block ends."""
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join(LIMIT_S)

    def image(self, request: JobRequest, index: int, seed: int) -> Image.Image:
        """Grain in one colour, so that files are larger the better they are."""
        grain = Image.effect_noise((request.width, request.height), 60)
        return Image.merge("RGB", (grain, grain, Image.new("L", grain.size, seed % 256)))

    def painted(self, job_id: UUID | str) -> int:
        """How often a job was taken."""
        return sum(str(job.id) == str(job_id) for job in self.jobs)

    def _work(self) -> None:
        store = self._site.services.store
        while not self._stop.wait(PAUSE_S):
            if self._rests:
                continue
            lease = self._site.call(store.claim(self._worker, self._worker.lanes))
            if lease is not None:
                self._paint(lease)

    def _paint(self, lease: Lease) -> None:
        job = lease.job
        self.jobs.append(job)
        if job.request.prompt.startswith("fail"):
            last = job.request.prompt.split()[-1]
            code = last if "_" in last else "bad_output"
            self._site.call(self._site.services.store.fail(lease.token, JobError(code=code, message="it went wrong")))
            return
        every = job.request.previews
        while every and not self._site.services.tail.listeners and not self._stop.wait(PAUSE_S):
            pass  # previews reach those who listen
        for step in range(every, job.request.steps, every) if every else ():
            self.preview(job.id, step, attempt=lease.token)
            self._stop.wait(PAUSE_S)
        self.finish(lease)
