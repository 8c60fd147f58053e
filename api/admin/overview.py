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
from api.operating.schemas import HourView
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
    return await page(request, "overview.html", title="Overview", view=view, hour=_hour(view.hour))


def _hour(hour: HourView) -> dict[str, Any]:
    """The last hour's chart: what ended, minute by minute."""
    labels = [minute.at.strftime("%H:%M") for minute in hour.minutes]
    series = {name: [getattr(minute, name) for minute in hour.minutes] for name in ("succeeded", "failed", "canceled")}
    return chart("bar", labels, series, unit="jobs", stacked=True, colours=("good", "bad", "strong-line"))
