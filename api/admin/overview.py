"""How everything stands, and what is wrong now."""

from __future__ import annotations

from litestar import get
from litestar.response import Template

from api.admin.rendering import AnyRequest, page
from api.lanes import all_lanes
from api.openapi import ServicesDependency
from api.views import lane_view


@get("/")
async def show(request: AnyRequest, services: ServicesDependency) -> Template:
    """The first page."""
    lanes = [lane_view(lane) for lane in (await all_lanes(services)).values()]
    return await page(request, "overview.html", title="Overview", lanes=lanes)
