"""Finding jobs."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Request, get
from litestar.di import Provide
from litestar.params import QueryParameter

from api.auth import LOOK, bound_to, owns, viewer
from api.openapi import ServicesDependency, answers
from api.operating.filters import FILTERS, FilterDependency, job_filter, visible
from api.operating.schemas import JobCount
from api.problems import invalid
from api.schemas import JobList
from api.views import job_view
from api.wording import plainly, unknown

AnyRequest = Request[Any, Any, Any]

_WHERE = {"where": Provide(job_filter, sync_to_thread=False)}


@get("/jobs", opt=LOOK, dependencies=_WHERE, summary="List jobs", responses=answers(400))
async def list_jobs(
    request: AnyRequest,
    services: ServicesDependency,
    where: FilterDependency,
    limit: Annotated[int, QueryParameter(ge=1, le=200, description="How many at most.")] = 50,
    cursor: Annotated[
        str | None, QueryParameter(pattern=r"^[!-~]{1,500}\Z", description="`next_cursor` of the page before.")
    ] = None,
) -> JobList:
    """Jobs newest first: those of the key that asks, all of them for an admin's or an observer's.

    A search looks at 20,000 jobs at most: where it stopped before the page was full, `stopped_early` is true, and
    `next_cursor` goes on from there.
    """
    only_known(request, (*FILTERS, "limit", "cursor"))
    where = visible(where, bound_to(request), services)
    try:
        page = await services.store.list_jobs(msgspec.structs.replace(where, limit=limit, cursor=cursor))
    except ValueError:
        raise invalid("cursor", plainly("cursor", "")) from None
    key = viewer(request)
    views = tuple(job_view(job, services, with_path=owns(key, job.key_id)) for job in page.jobs)
    return JobList(data=views, next_cursor=page.next_cursor, stopped_early=page.stopped_early)


@get("/jobs/count", opt=LOOK, dependencies=_WHERE, summary="Count jobs", responses=answers(400))
async def count_jobs(request: AnyRequest, services: ServicesDependency, where: FilterDependency) -> JobCount:
    """How many jobs a filter names, up to 10,000, of those that a list with it would show."""
    only_known(request, FILTERS)
    counted = await services.store.count_jobs(visible(where, bound_to(request), services))
    return JobCount(count=counted.count, at_least=counted.at_least, as_of=counted.as_of)


def only_known(request: AnyRequest, names: tuple[str, ...]) -> None:
    """Raise ProblemError on a query parameter that isn't known."""
    for name in request.query_params:
        if name not in names:
            raise invalid(name[:100], unknown(name, names, "query parameter"))
