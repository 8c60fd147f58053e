"""How everything stands, and what is wrong now."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import get
from litestar.params import QueryParameter
from litestar.response import Template

from api.admin.charts import chart
from api.admin.rendering import AnyRequest, page
from api.openapi import ServicesDependency
from api.operating.overview import overview
from api.operating.schemas import HourView, OverviewView
from api.problems import invalid
from jobstore.quotas import zones


@get("/")
async def show(
    request: AnyRequest,
    services: ServicesDependency,
    zone: Annotated[str, QueryParameter(max_length=64)] = "UTC",
) -> Template:
    """The first page; today begins at midnight of ``zone``."""
    if zone not in zones():
        raise invalid("zone", "zone is a time zone like Europe/Berlin")
    view = await overview(services, zone)
    return await page(
        request, "overview.html", title="Overview", view=view, hour=_hour(view.hour), waiting=_waiting(view)
    )


def _waiting(view: OverviewView) -> str:
    """What those that wait are waiting for."""
    held = [lane for lane in view.lanes if lane.queued]
    if held and all(lane.paused for lane in held):
        return "their lane is paused" if len(held) == 1 else "their lanes are paused"
    if view.devices.alive == view.devices.draining or (held and not any(lane.devices for lane in held)):
        return "until a worker serves"
    if any(lane.paused for lane in held):
        return "some in a paused lane"
    return f"{view.scheduled:,} scheduled for later" if view.scheduled else "start as devices get free"


def _hour(hour: HourView) -> dict[str, Any]:
    """The last hour's chart: what ended, minute by minute."""
    labels = [minute.at.strftime("%H:%M") for minute in hour.minutes]
    series = {name: [getattr(minute, name) for minute in hour.minutes] for name in ("succeeded", "failed", "canceled")}
    return chart("bar", labels, series, unit="jobs", stacked=True, colours=("good", "bad", "strong-line"))
