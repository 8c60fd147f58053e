"""Lanes: how they stand, pausing and resuming them."""

from __future__ import annotations

from litestar import Response, get, post
from litestar.params import FromPath
from litestar.response import Template

from api.admin.forms import posted
from api.admin.rendering import AnyRequest, done, page
from api.auth import actor
from api.canary_routes import canary_views
from api.lanes import all_lanes, pause_named, resume_named
from api.openapi import ServicesDependency
from api.problems import invalid
from api.views import lane_view

_MAX_REASON = 200
_PATH = "/admin/lanes"


@get("/lanes")
async def show(request: AnyRequest, services: ServicesDependency) -> Template:
    """All lanes with what waits and runs in them."""
    lanes = [lane_view(lane) for lane in (await all_lanes(services)).values()]
    canaries = await canary_views(services)
    return await page(request, "lanes.html", title="Lanes", lanes=lanes, canaries=canaries)


@post("/lanes/{lane:str}/pause")
async def pause(lane: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Start no job of the lane until it is resumed."""
    reason = (await posted(request)).get("reason", "")
    if len(reason) > _MAX_REASON:
        raise invalid("reason", f"the reason has {len(reason)} characters; at most {_MAX_REASON} are taken")
    await pause_named(services, lane, reason, actor(request))
    return done(request, _PATH, f"{lane} is paused: submits are taken and wait.")


@post("/lanes/{lane:str}/resume")
async def resume(lane: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Start the lane's jobs again."""
    await resume_named(services, lane, actor(request))
    return done(request, _PATH, f"{lane} goes on.")
