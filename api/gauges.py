"""What an API process tells Prometheus of the store: lanes, budgets, and whether the parts answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from jobstore.job import JobState
from jobstore.live import Bell
from jobstore.outputs import Outputs
from jobstore.protocol import JobStore, Lane
from jobstore.quotas import QuotaStatus
from jobstore.rules.scaling import LATELY_S, wanted_workers
from safelight.config import Settings
from safelight.telemetry import get_logger
from safelight.telemetry.metrics import (
    BUDGET_USED,
    JOBS_UNFINISHED,
    LANE_PAUSED,
    LANE_WANTED,
    LANE_WORKERS,
    PART_UP,
    QUEUE_EXPECTED_SECONDS,
    QUEUE_OLDEST_SECONDS,
)

_log = get_logger(__name__)

_TTL_S = 5.0
_LIMIT_S = 3.0
_MOST_BUDGETS = 100


class StoreGauges:
    """Asks at a scrape, at most every few seconds. What can't be asked keeps the value it had."""

    def __init__(self, store: JobStore, outputs: Outputs, bell: Bell, settings: Settings) -> None:
        """The lanes of the settings are there with 0 before the first job."""
        self._store = store
        self._outputs = outputs
        self._bell = bell
        self._settings = settings
        self._refreshed = -_TTL_S

    async def refresh(self) -> None:
        """Ask again if the numbers are old. Raises nothing: metrics must answer when the store does not."""
        if time.monotonic() - self._refreshed < _TTL_S:
            return
        self._refreshed = time.monotonic()
        PART_UP.labels("broker").set(not self._bell.away)
        await asyncio.gather(
            _asked("lanes", self._read_lanes),
            _asked("budgets", self._read_budgets),
            _examined("store", self._store.ping),
            _examined("outputs", self._outputs.ping),
        )

    async def _read_lanes(self) -> None:
        known = {lane.name: lane for lane in await self._store.lanes()}
        arriving = await self._store.arriving(LATELY_S)
        for name in {*self._settings.lanes, *known}:
            lane = known.get(name) or Lane(name=name)
            _tell_lane(lane)
            LANE_WANTED.labels(name).set(wanted_workers(lane, arriving.get(name, 0.0), self._settings.scaling))

    async def _read_budgets(self) -> None:
        _tell_budgets(await self._store.quotas())


def _tell_lane(lane: Lane) -> None:
    counts = {JobState.SCHEDULED: lane.scheduled, JobState.QUEUED: lane.queued, JobState.RUNNING: lane.running}
    for state, count in counts.items():
        JOBS_UNFINISHED.labels(lane.name, state.value).set(count)
    QUEUE_OLDEST_SECONDS.labels(lane.name).set(lane.oldest_s)
    QUEUE_EXPECTED_SECONDS.labels(lane.name).set(lane.waiting_s)
    LANE_WORKERS.labels(lane.name).set(lane.devices)
    LANE_PAUSED.labels(lane.name).set(lane.paused_at is not None)


def _tell_budgets(found: tuple[QuotaStatus, ...]) -> None:
    """The fullest ones alone: there may be a quota for each of thousands of keys."""
    BUDGET_USED.clear()
    for status in sorted(found, key=_ratio, reverse=True)[:_MOST_BUDGETS]:
        quota = status.quota
        window = f"any {quota.period}" if quota.rolling else quota.period
        BUDGET_USED.labels(quota.owner_kind, quota.owner, quota.kind.value, quota.currency, window).set(_ratio(status))


def _ratio(status: QuotaStatus) -> float:
    """How much of a quota is taken; one that allows nothing is used up."""
    return float((status.held + status.used) / status.quota.most) if status.quota.most else 1.0


async def _asked(what: str, ask: Callable[[], Awaitable[None]]) -> bool:
    try:
        async with asyncio.timeout(_LIMIT_S):
            await ask()
    except Exception as error:  # the drivers' errors differ
        _log.warning("not told in metrics", action="metrics.not_read", what=what, error=type(error).__name__)
        return False
    return True


async def _examined(part: str, ping: Callable[[], Awaitable[None]]) -> None:
    PART_UP.labels(part).set(await _asked(part, ping))
