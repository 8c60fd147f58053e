"""Jobs: finding them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlencode
from uuid import UUID

from litestar import Response, get
from litestar.params import QueryParameter
from litestar.response import Redirect, Template
from msgspec import Struct
from msgspec.structs import replace

from api.admin.advice import ADVICE
from api.admin.job_filter import Search, has_blanks, in_words, search_of
from api.admin.job_pictures import is_cheap
from api.admin.known_keys import known_keys
from api.admin.rendering import AnyRequest, page
from api.lanes import all_lanes
from api.openapi import ServicesDependency
from api.operating.acts import within
from api.problems import invalid
from api.services import Services
from api.views import cost_view
from api.wording import plainly
from jobstore.job import Job, JobState
from jobstore.operating.jobs import LETTERS, UNFINISHED, JobPage

PATH = "/admin/jobs"
_A_PAGE = 50
_PROMPT_CHARS = 160
_DIMENSIONS = 3


class JobRow(Struct, frozen=True, kw_only=True):
    """A job as the list shows it. ``picture`` is a small one's address; ``left_out`` dimensions aren't shown."""

    id: UUID
    state: JobState
    canceling: bool
    model: str
    prompt: str
    key: str | None
    dimensions: tuple[tuple[str, str], ...]
    left_out: int
    created_at: datetime
    attempts: int
    charged: str
    reserved: str
    currency: str
    error: str | None
    picture: str | None


class Total(Struct, frozen=True, kw_only=True):
    """How many jobs match; ``at_least`` so many where counting stopped."""

    count: int
    at_least: bool


@get("/jobs")
async def show(
    request: AnyRequest,
    services: ServicesDependency,
    cursor: Annotated[str | None, QueryParameter(pattern=r"^[!-~]{1,500}\Z")] = None,
) -> Template | Response[Any]:
    """The jobs that the filter names, newest first."""
    search = search_of(request, services, "cursor")
    if has_blanks(request):
        return Redirect(f"{PATH}?{urlencode(search.pairs)}" if search.pairs else PATH, status_code=303)
    try:
        found = await services.store.list_jobs(replace(search.where, limit=_A_PAGE, cursor=cursor))
    except ValueError:
        raise invalid("cursor", plainly("cursor", "")) from None
    keys = await known_keys(services)
    names = {key.id: key.name for key in keys}
    return await page(
        request,
        "jobs.html",
        title="Jobs",
        search=search,
        query=search.pairs,
        rows=[_row(job, names) for job in found.jobs],
        next_cursor=found.next_cursor,
        stopped_early=found.stopped_early,
        total=await _total(services, search, found, cursor),
        words=in_words(search.where, names),
        keys=keys,
        choices=await _choices(services),
        states=[*JobState],
        cancelable=bool(search.pairs) and bool(within(search.where, UNFINISHED)),
        redrivable=bool(search.pairs) and bool(within(search.where, LETTERS)),
    )


async def _total(services: Services, search: Search, found: JobPage, cursor: str | None) -> Total:
    """How many match. Where one page shows them all, they are counted already; else up to two seconds old."""
    if cursor is None and found.next_cursor is None:
        return Total(count=len(found.jobs), at_least=False)
    name = f"jobs {urlencode(search.pairs)}"
    counted = await services.glances.get(name, lambda: services.store.count_jobs(search.where))
    return Total(count=counted.count, at_least=counted.at_least)


async def _choices(services: Services) -> dict[str, list[str]]:
    """What the form's fields suggest."""
    workers = await services.glances.get("workers", services.store.worker_statuses)
    return {
        "model": [*services.settings.models],
        "lane": sorted(await services.glances.get("lanes", lambda: all_lanes(services))),
        "host": sorted({worker.host for worker in workers}),
        "error_code": sorted(ADVICE),
    }


def _row(job: Job, names: dict[UUID, str]) -> JobRow:
    cost, dimensions = cost_view(job), sorted(job.dimensions.items())
    first = job.pictures[0] if job.pictures else None
    return JobRow(
        id=job.id,
        state=job.state,
        canceling=job.cancel_requested and not job.state.terminal,
        model=job.request.model,
        prompt=job.request.prompt[:_PROMPT_CHARS],
        key=None if job.key_id is None else names.get(job.key_id, str(job.key_id)),
        dimensions=tuple(dimensions[:_DIMENSIONS]),
        left_out=max(len(dimensions) - _DIMENSIONS, 0),
        created_at=job.created_at,
        attempts=job.attempts,
        charged=cost.charged,
        reserved=cost.reserved,
        currency=cost.currency,
        error=None if job.error is None else job.error.code,
        picture=f"{PATH}/{job.id}/images/{first.index}/small" if first is not None and is_cheap(first) else None,
    )
