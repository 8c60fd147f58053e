"""Sweeps the store now and then: takes back what silent workers held, and rings for what nobody rang for."""

from __future__ import annotations

import asyncio
import random

from jobstore.live import Bell
from jobstore.protocol import JobStore, Swept
from safelight.config import WorkerSettings
from safelight.telemetry import get_logger
from safelight.telemetry.metrics import FALLBACKS, SWEPT

_log = get_logger(__name__)

_CHANGES = ("rescued", "dead", "expired", "staged", "canceled")
_LIMIT = 100
_ROUNDS = 50
_BOOT_RING_S = 0.5  # not 0: what one batch rang for is not to be in the next


class Sweeper:
    """Any number of processes may run one; the store makes each change once."""

    def __init__(self, store: JobStore, bell: Bell, settings: WorkerSettings) -> None:
        self._store = store
        self._bell = bell
        self._settings = settings

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await self.sweep()
            # Many processes that started together need not sweep together.
            await asyncio.sleep(self._settings.sweep_s * random.uniform(0.75, 1.25))  # noqa: S311 - no secret

    async def sweep(self) -> None:
        """Sweep once, with the times of the settings."""
        await self._sweep(self._settings.lease_s, self._settings.ring_again_s)

    async def sweep_at_boot(self) -> None:
        """Sweep as the only process that there is: no lease of an earlier one is alive, no bell of it was kept."""
        await self._sweep(0.0, _BOOT_RING_S)

    async def _sweep(self, lease_s: float, ring_again_s: float) -> None:
        """Sweep in batches for as long as they are full: what a whole fleet left behind is not kept waiting."""
        for _ in range(_ROUNDS):
            swept = await self._batch(lease_s, ring_again_s)
            if swept is None:
                return
            counts = (getattr(swept, change) for change in _CHANGES)
            if max(len(swept.ring), len(swept.fallbacks), *counts) < _LIMIT:
                return

    async def _batch(self, lease_s: float, ring_again_s: float) -> Swept | None:
        try:
            swept = await self._store.sweep(
                lease_s=lease_s, ring_again_s=ring_again_s, max_rescues=self._settings.max_rescues, limit=_LIMIT
            )
        except Exception as error:  # the driver's errors differ by store; the next sweep makes up for it
            _log.warning("sweep failed", action="sweeper.failed", error=type(error).__name__)
            return None
        for lane in swept.ring:
            self._bell.ring(lane)
        _note(swept)
        return swept


def _note(swept: Swept) -> None:
    for cause in swept.fallbacks:
        FALLBACKS.labels(cause).inc()
    changes = {change: getattr(swept, change) for change in _CHANGES if getattr(swept, change)}
    for change, count in changes.items():
        SWEPT.labels(change).inc(count)
    if swept.fallbacks:
        changes["sent_on"] = len(swept.fallbacks)
    if changes or swept.ring:
        _log.info("swept", action="sweeper.swept", bells=len(swept.ring), **changes)
