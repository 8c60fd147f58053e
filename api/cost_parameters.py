"""What a request for a report may name: its parameters, once for all reports."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request
from litestar.di import NamedDependency, Provide
from litestar.params import QueryParameter, SkipValidation
from msgspec import Struct

from api.cost_query import query_of
from api.problems import invalid
from jobstore.reports.model import ReportQuery

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


class Asked(Struct, frozen=True, kw_only=True):
    """A report that is asked for, and whether as CSV."""

    query: ReportQuery
    as_csv: bool


def asked_of(
    request: AnyRequest,
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
) -> Asked:
    """What the request asks for, of what its key may see. Raises ProblemError."""
    return Asked(query=query_of(request), as_csv=_wants_csv(request))


AskedDependency = NamedDependency[SkipValidation[Asked]]
ASKED = {"asked": Provide(asked_of, sync_to_thread=False)}


def _wants_csv(request: AnyRequest) -> bool:
    """True where ``format`` says so, or ``Accept`` where nothing does. Raises ProblemError."""
    asked = request.query_params.get("format")
    if asked not in (None, "json", "csv"):
        raise invalid("format", "format must be json or csv")
    return asked == "csv" or (asked is None and request.headers.get("accept", "").startswith("text/csv"))
