"""Whether the outputs take pictures: while they don't, a worker claims no jobs whose renders would be thrown away."""

from __future__ import annotations

import time

from jobstore.outputs import Outputs
from safelight.telemetry import get_logger

_log = get_logger(__name__)

_ASK_EVERY_S = 5.0


class OutputsGate:
    """Shut by a picture that could not be stored, opened by a probe that could. Belongs to the actors' event loop."""

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs
        self._shut = False
        self._size_bytes = 0
        self._asked_at = float("-inf")

    def shut(self, size_bytes: int) -> None:
        """Note that a picture of that size could not be stored. On a full disk there is still room for less."""
        self._size_bytes = max(size_bytes, self._size_bytes)
        if not self._shut:
            _log.error("outputs take no pictures, no jobs are claimed", action="gate.shut")
        self._shut = True
        self._asked_at = time.monotonic()

    async def is_open(self) -> bool:
        """True when jobs may be claimed; while shut, the outputs are probed now and then."""
        if self._shut and time.monotonic() - self._asked_at >= _ASK_EVERY_S:
            self._asked_at = time.monotonic()
            await self._probe()
        return not self._shut

    async def _probe(self) -> None:
        try:
            await self._outputs.ping(self._size_bytes)
        except Exception as error:  # the drivers' errors differ by kind of outputs
            _log.warning("outputs still take no pictures", action="gate.shut", error=type(error).__name__)
        else:
            self._shut = False
            self._size_bytes = 0
            _log.info("outputs take pictures again", action="gate.opened")
