"""Deletes what is past its age, pictures included, a batch at a time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from jobstore.checkpoints import stale_checkpoints
from jobstore.inputs import stale_inputs
from jobstore.outputs import Outputs
from jobstore.protocol import JobStore
from jobstore.retention import DOOMED_GRACE_S, Ages
from safelight.config import RetentionSettings
from safelight.telemetry import get_logger
from safelight.telemetry.metrics import PURGED

_log = get_logger(__name__)

_LIMIT = 1000
_PAUSE_S = 0.05  # between batches, so that a purge of years leaves room for jobs
_ROUNDS = 200
_HOURS = 24


class Janitor:
    """Any number of processes may run one: the store deletes each thing once."""

    def __init__(self, store: JobStore, outputs: Outputs, settings: RetentionSettings) -> None:
        self._store = store
        self._outputs = outputs
        self._settings = settings
        self._ages = Ages(**settings.ages)

    async def run(self) -> None:
        """Clean until cancelled."""
        while True:
            await asyncio.sleep(self._settings.every_s * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
            for work, failed in ((self.clean, "purge failed"), (self.sum_up, "ledger not summed up")):
                try:
                    await work()
                except Exception as error:  # the drivers' errors differ; the next round makes up for it
                    _log.warning(failed, action="janitor.failed", error=type(error).__name__)

    async def clean(self) -> None:
        """Purge what is past its age now, then delete pictures, checkpoints and inputs that nobody needs."""
        for _ in range(_ROUNDS):
            purged = await self._store.purge(self._ages, _LIMIT)
            for kind in purged.__struct_fields__:
                PURGED.labels(kind).inc(getattr(purged, kind))
            if purged.most < _LIMIT:
                break
            await asyncio.sleep(_PAUSE_S)
        await self._empty_outputs()
        await self._empty_checkpoints()
        await self._empty_inputs()

    async def sum_up(self) -> None:
        """Sum up the hours of the ledger that are over. What an upgrade finds unsummed takes several rounds."""
        for _ in range(_ROUNDS):
            if not await self._store.roll_up(_HOURS):
                break
            await asyncio.sleep(_PAUSE_S)

    async def _empty_outputs(self) -> None:
        while keys := await self._store.doomed(_LIMIT):
            failed = await self._delete(keys)
            await self._store.doom(sorted(failed))  # last in line, so that they don't keep the others
            await self._store.bury([key for key in keys if key not in failed])
            _log.info("pictures deleted by age", action="janitor.deleted", count=len(keys) - len(failed))
            if len(keys) < _LIMIT:
                return
            await asyncio.sleep(_PAUSE_S)

    async def _empty_checkpoints(self) -> None:
        """Checkpoints of jobs that ended while nobody rendered them. Running jobs' own are younger, mostly."""
        async for keys in stale_checkpoints(self._store, self._outputs, DOOMED_GRACE_S):
            if keys:
                failed = await self._delete(keys)
                _log.info("checkpoints deleted", action="janitor.checkpoints", count=len(keys) - len(failed))

    async def _empty_inputs(self) -> None:
        """Pictures that jobs began from, once those have ended for good."""
        async for keys in stale_inputs(self._store, self._outputs, DOOMED_GRACE_S):
            if keys:
                failed = await self._delete(keys)
                _log.info("inputs deleted", action="janitor.inputs", count=len(keys) - len(failed))

    async def _delete(self, keys: Sequence[str]) -> frozenset[str]:
        """Delete what lies under the keys; those where that failed."""
        results = await asyncio.gather(*(self._outputs.delete([key]) for key in keys), return_exceptions=True)
        errors = {key: result for key, result in zip(keys, results, strict=True) if isinstance(result, Exception)}
        for key, error in list(errors.items())[:1]:
            _log.warning(
                "pictures not deleted",
                action="janitor.delete_failed",
                count=len(errors),
                key=key,
                error=type(error).__name__,
            )
        return frozenset(errors)
