"""What jobs cost and how long they took, by team, model, key, day and the like."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get
from litestar.params import QueryParameter

from api.auth import LOOK
from api.cost_query import query_of
from api.cost_schemas import CostList, CostView, LatencyList, LatencyView
from api.cost_sheets import costs_csv, latency_csv
from api.openapi import ServicesDependency, answers
from api.problems import invalid
from api.views import plain_amount
from jobstore.reports.model import CostReport, CostRow, LatencyReport, LatencyRow, ReportQuery

AnyRequest = Request[Any, Any, Any]

By = Annotated[
    list[str] | None,
    QueryParameter(
        description="Up to three of `day`, `model`, `key`, `team`, `customer`, `lane`, `device`, `cache` and "
        "`dim:NAME` for a dimension: `by=day&by=model`, or `by=day,model`.",
        required=False,
    ),
]
From = Annotated[
    str | None, QueryParameter(name="from", description="The first day; the first of the last one's month.")
]
To = Annotated[str | None, QueryParameter(description="The last day, which counts too; today.")]
Zone = Annotated[str | None, QueryParameter(description="Whose days: a time zone like `Europe/Berlin`; UTC.")]
Limit = Annotated[str | None, QueryParameter(description="Rows at most, 1 to 5000; the rest is summed up. 1000.")]
Format = Annotated[str | None, QueryParameter(name="format", description="`json` or `csv`; else `Accept` decides.")]
Key = Annotated[
    str | None, QueryParameter(description="Only the key of this id; another's is for admins and observers.")
]
Only = Annotated[str | None, QueryParameter(description="Only this. `dim.NAME=VALUE` names a dimension's value.")]
Cache = Annotated[str | None, QueryParameter(description="Only `miss`, `hit` or `joined`.")]


@get("/costs", opt=LOOK, summary="Report costs", responses=answers(400))
async def read_costs(
    request: AnyRequest,
    services: ServicesDependency,
    by: By = None,  # noqa: ARG001 - the parameters are read together, dim.NAME among them
    first: From = None,  # noqa: ARG001
    to: To = None,  # noqa: ARG001
    zone: Zone = None,  # noqa: ARG001
    limit: Limit = None,  # noqa: ARG001
    shape: Format = None,  # noqa: ARG001
    key: Key = None,  # noqa: ARG001
    team: Only = None,  # noqa: ARG001
    customer: Only = None,  # noqa: ARG001
    model: Only = None,  # noqa: ARG001
    lane: Only = None,  # noqa: ARG001
    device: Only = None,  # noqa: ARG001
    cache: Cache = None,  # noqa: ARG001
) -> Response[CostList | str]:
    """Sums over the ledger, exact to the last decimal: all for admins and observers, for other keys their own jobs'."""
    query = query_of(request)
    as_csv = wants_csv(request)
    report = await services.store.costs(query)
    return csv_response("costs", query, costs_csv(query.by, report)) if as_csv else Response(cost_list(query, report))


@get("/latency", opt=LOOK, summary="Report completion times", responses=answers(400))
async def read_latency(
    request: AnyRequest,
    services: ServicesDependency,
    by: By = None,  # noqa: ARG001 - the parameters are read together, dim.NAME among them
    first: From = None,  # noqa: ARG001
    to: To = None,  # noqa: ARG001
    zone: Zone = None,  # noqa: ARG001
    limit: Limit = None,  # noqa: ARG001
    shape: Format = None,  # noqa: ARG001
    key: Key = None,  # noqa: ARG001
    team: Only = None,  # noqa: ARG001
    customer: Only = None,  # noqa: ARG001
    model: Only = None,  # noqa: ARG001
    lane: Only = None,  # noqa: ARG001
    device: Only = None,  # noqa: ARG001
    cache: Cache = None,  # noqa: ARG001
) -> Response[LatencyList | str]:
    """From submit to pictures, p50 and p90; hits, which take no time, are left out. Else as for costs."""
    query = query_of(request)
    as_csv = wants_csv(request)
    report = await services.store.latency(query)
    return (
        csv_response("latency", query, latency_csv(query.by, report))
        if as_csv
        else Response(latency_list(query, report))
    )


def wants_csv(request: AnyRequest) -> bool:
    """True where ``format`` says so, or ``Accept`` where nothing does. Raises ProblemError."""
    asked = request.query_params.get("format")
    if asked not in (None, "json", "csv"):
        raise invalid("format", "format must be json or csv")
    return asked == "csv" or (asked is None and request.headers.get("accept", "").startswith("text/csv"))


def cost_list(query: ReportQuery, report: CostReport) -> CostList:
    """A report as it goes over the wire."""
    return CostList(
        first=query.first,
        last=query.last,
        zone=query.zone,
        by=query.by,
        data=tuple(_cost_view(query, row) for row in report.rows),
        rest=tuple(_cost_view(query, row) for row in report.rest),
        totals=tuple(_cost_view(query, row) for row in report.totals),
        names=report.names,
    )


def latency_list(query: ReportQuery, report: LatencyReport) -> LatencyList:
    """A report as it goes over the wire."""
    return LatencyList(
        first=query.first,
        last=query.last,
        zone=query.zone,
        by=query.by,
        data=tuple(_latency_view(query, row) for row in report.rows),
        rest=report.rest,
        total=None if report.total is None else _latency_view(query, report.total),
        names=report.names,
    )


def _cost_view(query: ReportQuery, row: CostRow) -> CostView:
    plain = msgspec.structs.asdict(row)
    del plain["values"]
    amounts = {name: plain_amount(plain[name]) for name in ("gpu_seconds", "charged", "saved")}
    return CostView(group=dict(zip(query.by, row.values, strict=False)), **plain | amounts)


def _latency_view(query: ReportQuery, row: LatencyRow) -> LatencyView:
    group = dict(zip(query.by, row.values, strict=False))
    return LatencyView(group=group, jobs=row.jobs, p50_s=row.p50_s, p90_s=row.p90_s)


def csv_response(what: str, query: ReportQuery, text: str) -> Response[Any]:
    """A file to be kept, named after its days."""
    name = f"safelight-{what}-{query.first}-{query.last}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)


COST_ROUTES = (read_costs, read_latency)
