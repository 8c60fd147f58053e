"""Acting on many jobs over REST: canceling and redriving what a filter names."""

from __future__ import annotations

from typing import Any

from litestar import Request, post
from litestar.params import JSONBody
from msgspec.structs import replace

from api.auth import ADMIN, SUBMIT, actor, bound_to
from api.decoding import CancelBody, RedriveBody
from api.openapi import ServicesDependency, answers
from api.operating.acts import CANCEL, REDRIVE, Act, confirmed
from api.operating.filters import visible
from api.operating.schemas import CancelRequest, JobsCanceled, JobsRedriven, ManyRequest, RedriveRequest
from api.problems import invalid
from api.services import Services
from api.wording import plainly
from jobstore.audit import Actor
from jobstore.job import JobState
from jobstore.operating.jobs import JobFilter

AnyRequest = Request[Any, Any, Any]


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
    where = _named(data, data.states)
    if where == JobFilter():  # all jobs would be meant
        raise invalid(
            "states", "name at least one of states, model, lane, key, worker, host, dimensions, text and times"
        )
    key = bound_to(request)
    by = actor(request) if key is None else None
    return JobsCanceled(**await _reached(CANCEL, visible(where, key, services), data, services, by))


@post(
    "/jobs/redrive",
    status_code=200,
    dto=RedriveBody,
    return_dto=None,
    opt={**ADMIN, "json": True},
    summary="Retry many failed or dead jobs",
    responses=answers(400, 409, 413, 415),
)
async def redrive_jobs(
    data: JSONBody[RedriveRequest], request: AnyRequest, services: ServicesDependency
) -> JobsRedriven:
    """Queue anew the failed or dead jobs that the filter names, those that ended first before others; for admins.

    With `dry_run` they are only counted; with `expected`, nothing is queued where they are more, or too many to count.
    """
    where = replace(_named(data, data.states), finished_after=data.finished_after, finished_before=data.finished_before)
    reached = await _reached(REDRIVE, visible(where, None, services), data, services, actor(request))
    return JobsRedriven(**reached, more=reached["next_cursor"] is not None)


async def _reached(
    act: Act, where: JobFilter, data: ManyRequest, services: Services, by: Actor | None
) -> dict[str, Any]:
    """What was counted, or what was done, as the answer has it. Raises ProblemError."""
    where = replace(where, states=where.states or act.states)
    told: dict[str, Any] = {"dry_run": data.dry_run, "at_least": False, "as_of": None, "job_ids": ()}
    if data.dry_run:
        counted = await act.count(services, where)
        seen = {"count": counted.count, "at_least": counted.at_least, "as_of": counted.as_of}
        return {**told, **seen, "next_cursor": None}
    if data.expected is not None and not data.all:
        confirmed(await act.count(services, where), data.expected)
    try:
        done = await act.some(services, replace(where, cursor=data.cursor), data.limit, by)
    except ValueError:
        raise invalid("cursor", plainly("cursor", "")) from None
    return {**told, "count": len(done.job_ids), "job_ids": done.job_ids, "next_cursor": done.next_cursor}


def _named(data: ManyRequest, states: tuple[str, ...] | None) -> JobFilter:
    """The filter of a body. Raises ProblemError."""
    for name in ("host", "text"):
        if "\0" in (getattr(data, name) or ""):
            raise invalid(name, f"{name} holds the character U+0000")
    for name, value in data.dimensions.items():
        if "\0" in value:
            raise invalid(f"dimensions.{name}", f"dimensions.{name} holds the character U+0000")
    return JobFilter(
        states=tuple(JobState(state) for state in states or ()),
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
