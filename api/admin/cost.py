"""What jobs cost and how long they took: charts, tables, and the same as CSV."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from litestar import Response, get
from litestar.response import Template

from api.admin.cost_charts import Labels, currency_parts, times_chart
from api.admin.cost_form import MEASURES, asked, by_day, presets, without_day
from api.admin.known_keys import key_choices
from api.admin.rendering import HEADERS, AnyRequest, page
from api.cost_sheets import costs_csv, latency_csv
from api.costs import csv_response
from api.openapi import ServicesDependency
from jobstore.reports.model import MOST_ROWS, PLAIN_GROUPS

_SHOWN = 500


@get("/cost")
async def show(request: AnyRequest, services: ServicesDependency) -> Template:
    """Costs by day and group, a part for each currency, and completion times."""
    wanted = asked(request, _SHOWN)
    query, groups = wanted.query, without_day(wanted.query)
    store = services.store
    report = await store.costs(query)
    daily = await store.costs(by_day(query, MOST_ROWS))
    grouped = await store.costs(by_day(query, MOST_ROWS, *groups)) if groups else daily
    times = await store.latency(query)
    return await page(
        request, "cost.html", title="Cost", wanted=wanted, query=query, measures=MEASURES, plain_groups=PLAIN_GROUPS,
        parts_of=currency_parts(report, daily, grouped, query, groups, wanted.show),
        name=Labels(query.by, report.names),
        times=times, times_name=Labels(query.by, times.names), times_chart=times_chart(times, query),
        keys=await key_choices(services), models=sorted(services.settings.models),
        presets=presets(query, datetime.now(ZoneInfo(query.zone)).date()),
    )  # fmt: skip


@get("/cost/costs.csv")
async def costs_sheet(request: AnyRequest, services: ServicesDependency) -> Response[Any]:
    """The table of costs, with up to 5,000 rows."""
    query = asked(request, MOST_ROWS).query
    return _sheet(csv_response("costs", query, costs_csv(query.by, await services.store.costs(query))))


@get("/cost/times.csv")
async def times_sheet(request: AnyRequest, services: ServicesDependency) -> Response[Any]:
    """The table of completion times, with up to 5,000 rows."""
    query = asked(request, MOST_ROWS).query
    return _sheet(csv_response("latency", query, latency_csv(query.by, await services.store.latency(query))))


def _sheet(answer: Response[Any]) -> Response[Any]:
    answer.headers.update(HEADERS)
    return answer


COST_ROUTES = (show, costs_sheet, times_sheet)
