"""How many workers each lane should have: what autoscalers ask."""

from __future__ import annotations

from collections.abc import Mapping

from litestar import get
from msgspec import Struct

from api.auth import OBSERVE
from api.lanes import LanePath, all_lanes, find_lane
from api.openapi import ServicesDependency, answers
from api.services import Services
from jobstore.protocol import Lane
from jobstore.rules.scaling import LATELY_S, wanted_workers
from safelight.config import ScalingSettings


class ScalingView(Struct, frozen=True, kw_only=True):
    """A lane's load. ``wanted`` workers would start all that waits within the target of the settings.

    ``workers`` serve it and don't drain; so many would keep up with what came in within the last minutes: ``arriving``.
    ``waiting_s`` is the device time, ``oldest_s`` the longest wait, ``drain_s``
    when what waits will have been started by these workers, null without any: all in seconds.
    """

    lane: str
    wanted: int
    workers: int
    arriving: float
    queued: int
    running: int
    waiting_s: float
    oldest_s: float
    drain_s: float | None
    paused: bool


class ScalingList(Struct, frozen=True, kw_only=True):
    """All lanes, by name."""

    data: tuple[ScalingView, ...]


@get("/scaling", opt=OBSERVE, summary="Tell how many workers the lanes should have", responses=answers())
async def list_scaling(services: ServicesDependency) -> ScalingList:
    """Each lane's load, and how many workers would do."""
    arriving = await _arriving(services)
    lanes = (await all_lanes(services)).values()
    return ScalingList(data=tuple(_view(lane, arriving, services.settings.scaling) for lane in lanes))


@get("/scaling/{lane:str}", opt=OBSERVE, summary="Tell how many workers a lane should have", responses=answers(404))
async def read_scaling(lane: LanePath, services: ServicesDependency) -> ScalingView:
    """One lane's load; KEDA's metrics-api scaler reads `wanted` of it."""
    return _view(await find_lane(lane, services), await _arriving(services), services.settings.scaling)


async def _arriving(services: Services) -> dict[str, float]:
    found: dict[str, float] = await services.glances.get("arriving", lambda: services.store.arriving(LATELY_S))
    return found


def _view(lane: Lane, arriving: Mapping[str, float], rule: ScalingSettings) -> ScalingView:
    came = arriving.get(lane.name, 0.0)
    return ScalingView(
        lane=lane.name,
        wanted=wanted_workers(lane, came, rule),
        workers=lane.devices,
        arriving=round(came, 2),
        queued=lane.queued,
        running=lane.running,
        waiting_s=round(lane.waiting_s, 1),
        oldest_s=round(lane.oldest_s, 1),
        drain_s=None if lane.drain_s is None else round(lane.drain_s, 1),
        paused=lane.paused_at is not None,
    )
