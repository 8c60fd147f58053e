"""Lanes: how they stand, for observers, and pausing them, for admins: they are everybody's."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, get, post
from litestar.params import JSONBody, PathParameter

from api.auth import ADMIN, OBSERVE, actor
from api.decoding import PauseBody
from api.openapi import ServicesDependency, answers
from api.problems import ProblemError, invalid
from api.schemas import LaneList, LaneView, PauseRequest
from api.services import Services
from api.views import lane_view
from jobstore.audit import Actor
from jobstore.protocol import Lane

AnyRequest = Request[Any, Any, Any]

_LANES = "lanes"

LanePath = Annotated[str, PathParameter(description="The lane's name.")]


@get("/lanes", opt=OBSERVE, summary="List lanes", responses=answers())
async def list_lanes(services: ServicesDependency) -> LaneList:
    """All lanes with what waits and runs in them, whether they are paused, and how long they need for their queue."""
    lanes: dict[str, Lane] = await services.counted.get(_LANES, lambda: all_lanes(services))
    return LaneList(data=tuple(lane_view(lane) for lane in lanes.values()))


@post(
    "/lanes/{lane:str}/pause",
    status_code=200,
    dto=PauseBody,
    return_dto=None,
    opt={**ADMIN, "json": True},
    summary="Pause a lane",
    responses=answers(400, 404, 413, 415),
)
async def pause_lane(
    lane: LanePath, data: JSONBody[PauseRequest], request: AnyRequest, services: ServicesDependency
) -> LaneView:
    """Start no job of the lane until it is resumed. Submits are taken and wait; what runs goes on."""
    if "\0" in data.reason:
        raise invalid("reason", "reason holds the character U+0000")
    return await pause_named(services, lane, data.reason, actor(request))


@post(
    "/lanes/{lane:str}/resume",
    status_code=200,
    opt=ADMIN,
    summary="Resume a lane",
    responses=answers(404),
)
async def resume_lane(lane: LanePath, request: AnyRequest, services: ServicesDependency) -> LaneView:
    """Start the lane's jobs again; where it isn't paused, nothing changes."""
    return await resume_named(services, lane, actor(request))


async def pause_named(services: Services, lane: str, reason: str, by: Actor) -> LaneView:
    """Pause the lane. Raises ProblemError where there is no such lane."""
    await find_lane(lane, services)
    await services.store.pause_lane(lane, reason, by)
    services.counted.forget(_LANES)
    return await _changed(lane, services)


async def resume_named(services: Services, lane: str, by: Actor) -> LaneView:
    """Resume the lane. Raises ProblemError where there is no such lane."""
    await find_lane(lane, services)
    services.ring(await services.store.resume_lane(lane, by))
    services.counted.forget(_LANES)
    return await _changed(lane, services)


async def all_lanes(services: Services) -> dict[str, Lane]:
    """By name: the lanes of the settings, and others that the store knows."""
    known = {lane.name: lane for lane in await services.store.lanes()}
    names = sorted({*services.settings.lanes, *known})
    return {name: known.get(name) or Lane(name=name) for name in names}


async def find_lane(name: str, services: Services) -> Lane:
    """The lane. Raises ProblemError where there is no such lane."""
    lane = (await all_lanes(services)).get(name)
    if lane is None:
        offer = ", ".join(services.settings.lanes)
        raise ProblemError(404, "lane_not_found", f"there is no such lane; there are: {offer}", field="lane")
    return lane


async def _changed(name: str, services: Services) -> LaneView:
    """The lane as it stands now; this process's own picture of it is made anew, too."""
    await services.backpressure.refresh()
    return lane_view(await find_lane(name, services))
