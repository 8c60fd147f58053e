"""Acting on all jobs that a filter names: counted and asked first, then done."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal
from urllib.parse import urlencode
from uuid import UUID

from litestar import Response, get, post
from litestar.response import Template
from msgspec import Meta, Struct
from msgspec.structs import replace

from api.admin.forms import posted, struct_of
from api.admin.job_filter import LETTERS, Search, in_words, redrives, search_of, within
from api.admin.jobs import PATH, known_keys
from api.admin.rendering import AnyRequest, done, page
from api.auth import actor
from api.openapi import ServicesDependency
from api.problems import ProblemError, invalid
from api.services import Services
from jobstore.job import JobState
from jobstore.live import WEBHOOKS_BELL
from jobstore.operating.jobs import UNFINISHED, Counted, JobFilter, RedriveFilter

_A_ROUND = 500
_LONGEST_S = 8.0  # a page waits for its answer; what is left is asked about again

Instant = Annotated[datetime, Meta(tz=True)]


class Confirmed(Struct, frozen=True, kw_only=True):
    """What whoever confirms has seen: how many jobs, and as of when; ``all`` where all are meant, not so many."""

    expected: Annotated[int, Meta(ge=0, le=10_000)]
    as_of: Instant
    all: Literal["yes"] | None = None


@get("/jobs/cancel")
async def ask_cancel(request: AnyRequest, services: ServicesDependency) -> Template:
    """How many jobs a cancel would reach, of what, and whether that is meant."""
    search = search_of(request, services)
    where = _unfinished(search.where)
    counted = await services.store.count_jobs(where)
    return await _question(request, services, search, counted, where.states, "cancel")


@post("/jobs/cancel")
async def cancel(request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Cancel what was counted."""
    search, by = search_of(request, services), actor(request)
    confirmed = struct_of(_shown(await posted(request)), Confirmed)
    until = min(search.where.created_before or confirmed.as_of, confirmed.as_of)
    where = replace(_unfinished(search.where), created_before=until)
    _as_shown(await services.store.count_jobs(where), confirmed)
    cursor: str | None = None

    async def some() -> tuple[Sequence[UUID], bool]:
        nonlocal cursor
        canceled = await services.store.cancel_jobs(replace(where, cursor=cursor), _A_ROUND, by)
        cursor = canceled.next_cursor
        services.ring([*canceled.ring, *([WEBHOOKS_BELL] if canceled.job_ids else [])])
        return canceled.job_ids, cursor is not None

    count, more = await _repeated(some, past_none=True)  # some of a search may have none in it, and the cursor goes on
    said = f"{jobs(count)} canceled; those that ran end at their next step."
    return _told(request, search, said, more, "cancel")


@get("/jobs/redrive")
async def ask_redrive(request: AnyRequest, services: ServicesDependency) -> Template:
    """How many jobs a redrive would queue anew, of what, and whether that is meant."""
    search = search_of(request, services)
    where = _letters(search.where)
    counted = await services.store.count_letters(where)
    return await _question(request, services, search, counted, where.states, "redrive")


@post("/jobs/redrive")
async def redrive(request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Queue anew what was counted."""
    search, by = search_of(request, services), actor(request)
    confirmed = struct_of(_shown(await posted(request)), Confirmed)
    where = replace(_letters(search.where), finished_before=confirmed.as_of)
    _as_shown(await services.store.count_letters(where), confirmed)

    async def some() -> tuple[Sequence[UUID], bool]:
        redriven = await services.store.redrive(where, _A_ROUND, by)
        services.ring(redriven.ring)
        return redriven.job_ids, redriven.more

    count, more = await _repeated(some)
    left, said = 0 if confirmed.all else confirmed.expected - count, f"{jobs(count)} queued anew."
    if left > 0 and not more:
        said += f" {left:,} stayed as they were: somebody else was faster, or a quota has no room."
    return _told(request, search, said, more, "redrive")


async def _repeated(
    some: Callable[[], Awaitable[tuple[Sequence[UUID], bool]]], *, past_none: bool = False
) -> tuple[int, bool]:
    """Do some after some until nothing is left or time is up: how many, and whether more are.

    Where nothing comes of some it ends, too, unless it is to go ``past_none``.
    """
    end, count = time.monotonic() + _LONGEST_S, 0
    while True:
        reached, more = await some()
        count += len(reached)
        if not more or not (reached or past_none) or time.monotonic() >= end:
            return count, more


def _unfinished(where: JobFilter) -> JobFilter:
    return replace(where, states=_narrowed(where, UNFINISHED, "canceled"), cancel_requested=False)


def _letters(where: JobFilter) -> RedriveFilter:
    if not redrives(where):
        detail = "a redrive goes by state, model, lane, key and error alone: take the other fields out of the filter"
        raise invalid("filter", detail)
    return RedriveFilter(
        states=_narrowed(where, LETTERS, "redriven"),
        model=where.model,
        lane=where.lane,
        key_id=where.key_id,
        error_code=where.error_code,
    )


def _narrowed(where: JobFilter, states: Sequence[JobState], what: str) -> tuple[JobState, ...]:
    """Those of ``states`` that the filter lets through. Raises ProblemError where none is, or all jobs are meant."""
    if where == JobFilter():
        raise invalid("filter", "name something in the filter first: without one, all jobs are meant")
    left = within(where, states)
    if not left:
        raise invalid("state", f"jobs that are {' or '.join(where.states)} can't be {what}")
    return left


def _shown(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: fields[name] for name in Confirmed.__struct_fields__ if fields.get(name)}


def _as_shown(counted: Counted, confirmed: Confirmed) -> None:
    """Raise a 409 where the filter names more jobs than whoever confirmed has seen, or than could be counted."""
    if confirmed.all:
        return
    if counted.at_least:
        detail = "more jobs may match than could be counted: nothing was changed; say that all are meant, or narrow it"
        raise ProblemError(409, "count_too_far", detail, field="expected")
    if counted.count > confirmed.expected:
        detail = (
            f"{jobs(counted.count)} match by now, and {confirmed.expected:,} did when you were asked: nothing was"
            " changed; look at them again, then confirm"
        )
        raise ProblemError(409, "count_changed", detail, field="expected")


async def _question(
    request: AnyRequest, services: Services, search: Search, counted: Counted, states: Sequence[JobState], verb: str
) -> Template:
    """The page, or the dialog's inside, that tells what is meant and asks."""
    names = {key.id: key.name for key in await known_keys(services)}
    where = replace(search.where, states=states)
    return await page(
        request,
        "jobs-many.html",
        title=f"{verb.capitalize()} jobs",
        verb=verb,
        counted=counted,
        jobs=jobs(counted.count, or_more=counted.at_least),
        words=in_words(where, names),
        action=f"{PATH}/{verb}?{urlencode(search.pairs)}",
        back=_list_of(search),
    )


def _told(request: AnyRequest, search: Search, said: str, more: bool, verb: str) -> Response[bytes]:
    if more:
        return done(request, _list_of(search), f"{said} There are more: {verb} again to go on.", kind="warn")
    return done(request, _list_of(search), said)


def jobs(count: int, *, or_more: bool = False) -> str:
    """So many jobs, in words; ``or_more`` where counting stopped before the end."""
    if or_more and not count:
        return "as many jobs as match"
    return f"{'at least ' if or_more else ''}{count:,} {'job' if count == 1 else 'jobs'}"


def _list_of(search: Search) -> str:
    return f"{PATH}?{urlencode(search.pairs)}"


MANY_ROUTES = (ask_cancel, cancel, ask_redrive, redrive)
