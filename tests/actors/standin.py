"""An engine that renders nothing and does what a test says."""

from __future__ import annotations

import threading
import time
from typing import cast

from PIL import Image

from actors.engine import Engine, EngineError, Handle, RenderRequest, RenderResult, Watch
from actors.engine.errors import CanceledError
from actors.engine.request import NOBODY
from tests.engine.conftest import TIMEOUT_S


class StandInEngine:
    """Takes requests and waits; a cancel ends them, with ``checkpoint`` where it is asked for."""

    def __init__(self) -> None:
        self.handles: list[Handle] = []
        self.checkpoint: bytes | None = b"at the stop"
        self.healthy = self.alive = True
        self.loaded: tuple[str, ...] = ()
        self.busy_seconds = 0.0

    @property
    def engine(self) -> Engine:
        """This, as what it stands in for."""
        return cast("Engine", self)

    def wait_ready(self, timeout: float | None = None) -> str:
        """At once."""
        return "cpu"

    def submit(self, request: RenderRequest, watch: Watch = NOBODY) -> Handle:
        """Take a request in."""
        handle = Handle(request, watch)
        threading.Thread(target=self._until_canceled, args=(handle,), daemon=True).start()
        self.handles.append(handle)
        return handle

    def finish(self, handle: Handle, *, resumed_at: int = 0) -> None:
        """A picture for each seed."""
        images = tuple(Image.new("RGB", (64, 64), (seed % 256, 0, 0)) for seed in handle.request.seeds)
        handle.future.set_result(RenderResult(images=images, device="cpu", device_seconds=0.5, resumed_at=resumed_at))

    def fail(self, handle: Handle, error: EngineError) -> None:
        """No picture."""
        handle.future.set_exception(error)

    def taken(self, count: int) -> Handle:
        """The ``count``-th request, once it is there."""
        end = time.monotonic() + TIMEOUT_S
        while len(self.handles) < count:
            assert time.monotonic() < end, "the worker submitted nothing"
            time.sleep(0.01)
        return self.handles[count - 1]

    def _until_canceled(self, handle: Handle) -> None:
        while not handle.future.done():
            if handle.cancel_requested:
                error = CanceledError("the request was canceled")
                error.device_seconds = 0.25
                error.checkpoint = self.checkpoint if handle.keep_requested else None
                handle.future.set_exception(error)
            time.sleep(0.005)
