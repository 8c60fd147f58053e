"""Finding jobs, and acting on many: canceling and redriving what a filter names."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Request, get, post
from litestar.di import Provide
from litestar.params import JSONBody, QueryParameter

from api.auth import ADMIN, LOOK, SUBMIT, actor, bound_to, owns, viewer
from api.decoding import CancelBody, RedriveBody
from api.openapi import ServicesDependency, answers
from api.operating.filters import FILTERS, FilterDependency, job_filter, own_name, visible
from api.operating.schemas import CancelRequest, JobCount, JobsCanceled
from api.problems import ProblemError, invalid
from api.schemas import JobList, Redriven, RedriveRequest
from api.services import Services
from api.views import job_view
from api.wording import plainly, unknown
from jobstore.job import JobState
from jobstore.live import WEBHOOKS_BELL
from jobstore.operating.jobs import UNFINISHED, Counted, JobFilter, RedriveFilter

AnyRequest = Request[Any, Any, Any]

_WHERE = {"where": Provide(job_filter, sync_to_thread=False)}


@get("/jobs", opt=LOOK, dependencies=_WHERE, summary="List jobs", responses=answers(400))
async def list_jobs(
    request: AnyRequest,
    services: ServicesDependency,
    where: FilterDependency,
    limit: Annotated[int, QueryParameter(ge=1, le=200, description="How many at most.")] = 50,
    cursor: Annotated[
        str | None, QueryParameter(pattern=r"^[!-~]{1,500}$", description="`next_cursor` of the page before.")
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


@post(
    "/jobs/cancel",
    status_code=200,
    dto=CancelBody,
    return_dto=None,
    opt={**SUBMIT, "json": True},
    summary="Cancel many jobs",
    responses=answers(400, 409, 413, 415),
)
async def cancel_jobs(data: JSONBody[CancelRequest], request: AnyRequest, services: ServicesDependency) -> JobsCanceled:
    """Cancel the unfinished jobs that a filter names: those of the key that asks, anybody's for an admin key.

    With `dry_run` they are only counted. Send `expected` and `created_before` as that answer told them, and nothing
    more than what was counted is canceled. An admin's cancel is in the audit log.
    """
    key = bound_to(request)
    where = visible(_unfinished(data), key, services)
    counted = await _counted(services, where, data)
    if data.dry_run:
        return _canceled(counted)
    by = actor(request) if key is None else None
    try:
        done = await services.store.cancel_jobs(msgspec.structs.replace(where, cursor=data.cursor), data.limit, by)
    except ValueError:
        raise invalid("cursor", plainly("cursor", "")) from None
    services.ring([*done.ring, *([WEBHOOKS_BELL] if done.job_ids else [])])
    return JobsCanceled(
        dry_run=False,
        count=len(done.job_ids),
        at_least=False,
        as_of=None,
        job_ids=done.job_ids,
        next_cursor=done.next_cursor,
    )


@post(
    "/jobs/redrive",
    status_code=200,
    dto=RedriveBody,
    return_dto=None,
    opt={**ADMIN, "json": True},
    summary="Retry many failed or dead jobs",
    responses=answers(400, 409, 413, 415),
)
async def redrive_jobs(data: JSONBody[RedriveRequest], request: AnyRequest, services: ServicesDependency) -> Redriven:
    """Queue anew the failed or dead jobs that the filter names, those that ended first before others; for admins.

    With `dry_run` they are only counted; with `expected`, nothing is queued where they are more, or too many to count.
    """
    where = RedriveFilter(
        states=tuple(JobState(state) for state in data.states),
        lane=data.lane,
        model=own_name(data.model, services),
        error_code=data.error_code,
        finished_after=data.finished_after,
        finished_before=data.finished_before,
    )
    if _is_counted(data):
        counted = await services.store.count_letters(where)
        if data.dry_run:
            return Redriven(
                dry_run=True,
                count=counted.count,
                at_least=counted.at_least,
                as_of=counted.as_of,
                job_ids=(),
                more=False,
            )
        as_expected(counted, data)
    done = await services.store.redrive(where, data.limit, actor(request))
    services.ring(done.ring)
    return Redriven(
        dry_run=False, count=len(done.job_ids), at_least=False, as_of=None, job_ids=done.job_ids, more=done.more
    )


def as_expected(counted: Counted, data: CancelRequest | RedriveRequest) -> None:
    """Raise a 409 where a filter names more jobs than whoever confirmed it has seen, or than could be counted."""
    expected = data.expected
    if expected is None or data.all:
        return
    if counted.at_least:
        detail = (
            f"counting stopped at {counted.count} jobs and the filter may name more, which expected can't confirm:"
            " narrow the filter, or send all: true to mean every job it names"
        )
        raise ProblemError(409, "count_too_far", detail, field="expected")
    if counted.count > expected:
        detail = f"the filter names {counted.count} jobs by now, and expected is {expected}: count again, then confirm"
        raise ProblemError(409, "count_changed", detail, field="expected")


async def _counted(services: Services, where: JobFilter, data: CancelRequest) -> Counted | None:
    if not _is_counted(data):
        return None
    counted = await services.store.count_jobs(msgspec.structs.replace(where, cancel_requested=False))
    if not data.dry_run:
        as_expected(counted, data)
    return counted


def _is_counted(data: CancelRequest | RedriveRequest) -> bool:
    return data.dry_run or (data.expected is not None and not data.all)


def _canceled(counted: Counted | None) -> JobsCanceled:
    if counted is None:
        raise LookupError("a dry run counts")
    return JobsCanceled(
        dry_run=True,
        count=counted.count,
        at_least=counted.at_least,
        as_of=counted.as_of,
        job_ids=(),
        next_cursor=None,
    )


def _unfinished(data: CancelRequest) -> JobFilter:
    """The filter of a body. Raises ProblemError on one that names nothing: all jobs would be meant."""
    where = JobFilter(
        states=tuple(JobState(state) for state in data.states or ()),
        model=data.model,
        lane=data.lane,
        key_id=data.key,
        worker_id=data.worker,
        host=data.host,
        dimensions=data.dimensions,
        text=data.text,
        error_code=data.error_code,
        created_after=data.created_after,
        created_before=data.created_before,
    )
    if where == JobFilter():
        raise invalid(
            "states", "name at least one of states, model, lane, key, worker, host, dimensions, text and times"
        )
    for name in ("host", "text"):
        if "\0" in (getattr(data, name) or ""):
            raise invalid(name, f"{name} holds the character U+0000")
    return msgspec.structs.replace(where, states=where.states or UNFINISHED)


def only_known(request: AnyRequest, names: tuple[str, ...]) -> None:
    """Raise ProblemError on a query parameter that isn't known."""
    for name in request.query_params:
        if name not in names:
            raise invalid(name[:100], unknown(name, names, "query parameter"))
