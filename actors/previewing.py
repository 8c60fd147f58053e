"""Encodes previews and sends them on their way, on a thread of its own."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING
from uuid import UUID

from actors.engine.request import Preview as Small
from actors.latest import Latest
from actors.threads import LazyThread
from jobstore.live import Preview, ProgressChannel
from safelight.telemetry import get_logger

if TYPE_CHECKING:
    from PIL.Image import Image

_log = get_logger(__name__)

_LONGEST_SIDE = 256  # pixels
_MAX_BYTES = 64 * 1024
_QUALITY = 60


class Previewer:
    """Of each image of each job the latest preview; what comes while one is being encoded replaces what waits."""

    def __init__(self, channel: ProgressChannel) -> None:
        self._channel = channel
        self._waiting: Latest[tuple[UUID, int, Small]] = Latest(capacity=64)
        self._thread = LazyThread("previews", self._run)

    def offer(self, job_id: UUID, attempt: int, preview: Small) -> None:
        """Take a preview in, from any thread; returns at once."""
        self._waiting.put((job_id, preview.index), (job_id, attempt, preview))
        self._thread.ensure()

    def close(self) -> None:
        """End the thread; what waits is dropped."""
        self._waiting.close()
        self._thread.join()

    def _run(self) -> None:
        while not self._waiting.closed:
            offered = self._waiting.get(timeout=60)
            if offered is None:
                continue
            try:
                self._send(*offered)
            except Exception:  # a preview is a kindness: without one the render goes on
                _log.exception("preview not sent", action="previewing.failed")

    def _send(self, job_id: UUID, attempt: int, preview: Small) -> None:
        data = encoded(preview.image)
        if len(data) <= _MAX_BYTES:
            self._channel.publish(
                Preview(
                    job_id=job_id,
                    attempt=attempt,
                    index=preview.index,
                    step=preview.step,
                    steps=preview.steps,
                    image=data,
                    media_type="image/jpeg",
                )
            )


def encoded(image: Image) -> bytes:
    """A small JPEG file: at most 256 pixels a side."""
    small = image.convert("RGB")
    small.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
    small.info.clear()
    stream = io.BytesIO()
    small.save(stream, "JPEG", quality=_QUALITY)
    return stream.getvalue()
