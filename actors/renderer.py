"""What a worker renders with, as its actors see it: the engine, or nothing where all models are remote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from actors.engine import Handle, RenderRequest, Watch
from actors.engine.errors import ModelUnavailableError
from actors.engine.request import NOBODY


class Renderer(Protocol):
    """``actors.engine.Engine``, as far as a worker needs it; what each does is said there."""

    def start(self, warm: Sequence[str] = ()) -> None:
        """Begin."""

    def wait_ready(self, timeout: float | None = None) -> str:
        """The device's label, once it is there."""

    def submit(self, request: RenderRequest, watch: Watch = NOBODY) -> Handle:
        """Take a request in."""

    def stop(self, timeout: float = 10.0) -> bool:
        """End; False where it hangs."""

    @property
    def healthy(self) -> bool:
        """True while it can be trusted to get its work done."""

    @property
    def loaded(self) -> tuple[str, ...]:
        """The models that are loaded, the one used last at the end."""

    @property
    def busy_seconds(self) -> float:
        """How long its device has worked so far."""


class NoEngine:
    """A ``Renderer`` for workers that serve remote models alone: no device is sought, and no torch needed."""

    healthy = True
    loaded: tuple[str, ...] = ()
    busy_seconds = 0.0

    def start(self, warm: Sequence[str] = ()) -> None:
        """There is nothing to be started."""

    def wait_ready(self, timeout: float | None = None) -> str:  # noqa: ARG002
        """At once."""
        return "provider"

    def submit(self, request: RenderRequest, watch: Watch = NOBODY) -> Handle:  # noqa: ARG002
        """Raise ModelUnavailableError."""
        raise ModelUnavailableError(f"model {request.model!r} is not remote, and this worker has no device")

    def stop(self, timeout: float = 10.0) -> bool:  # noqa: ARG002
        """There is nothing to be stopped."""
        return True
