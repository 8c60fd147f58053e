"""What jobs cost and how long they took, by team, model, key, day and the like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from litestar import Response, get

from api.auth import LOOK
from api.cost_parameters import ASKED, Asked, AskedDependency
from api.cost_schemas import CostList, CostView, LatencyList, LatencyView
from api.cost_sheets import costs_csv, latency_csv
from api.openapi import ServicesDependency, answers
from api.views import plain_amount
from jobstore.reports.model import CostReport, CostRow, LatencyReport, LatencyRow, ReportQuery

R = TypeVar("R")
T = TypeVar("T")


@get("/costs", opt=LOOK, dependencies=ASKED, summary="Report costs", responses=answers(400))
async def read_costs(services: ServicesDependency, asked: AskedDependency) -> Response[CostList | str]:
    """Sums over the ledger, exact to the last decimal: all for admins and observers, for other keys their own jobs'."""
    report = await services.store.costs(asked.query)
    return _answer("costs", asked, report, costs_csv, cost_list)


@get("/latency", opt=LOOK, dependencies=ASKED, summary="Report completion times", responses=answers(400))
async def read_latency(services: ServicesDependency, asked: AskedDependency) -> Response[LatencyList | str]:
    """From submit to pictures, p50 and p90; hits, which take no time, are left out. Else as for costs."""
    report = await services.store.latency(asked.query)
    return _answer("latency", asked, report, latency_csv, latency_list)


def _answer(
    what: str, asked: Asked, report: R, sheet: Callable[[Sequence[str], R], str], listed: Callable[[ReportQuery, R], T]
) -> Response[T | str]:
    """A report in the form that is asked for."""
    query = asked.query
    return csv_response(what, query, sheet(query.by, report)) if asked.as_csv else Response(listed(query, report))


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
