"""Acting on all jobs that a filter names: counted and asked first, then done."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Literal
from urllib.parse import urlencode

from litestar import Response, get, post
from litestar.response import Template
from msgspec import Meta, Struct
from msgspec.structs import replace

from api.admin.forms import posted, struct_of
from api.admin.job_filter import Search, in_words, search_of
from api.admin.jobs import PATH
from api.admin.known_keys import key_names
from api.admin.rendering import AnyRequest, done, page
from api.auth import actor
from api.openapi import ServicesDependency
from api.operating.acts import CANCEL, REDRIVE, Act, confirmed, jobs, within
from api.problems import invalid
from api.services import Services
from jobstore.audit import Actor
from jobstore.operating.jobs import JobFilter

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
    return await _asked(request, services, CANCEL)


@post("/jobs/cancel")
async def cancel(request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Cancel what was counted."""
    return await _acted(request, services, CANCEL, _stopped)


@get("/jobs/redrive")
async def ask_redrive(request: AnyRequest, services: ServicesDependency) -> Template:
    """How many jobs a redrive would queue anew, of what, and whether that is meant."""
    return await _asked(request, services, REDRIVE)


@post("/jobs/redrive")
async def redrive(request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Queue anew what was counted."""
    return await _acted(request, services, REDRIVE, _queued)


def _stopped(count: int, _left: int) -> str:
    return f"{jobs(count)} canceled; those that ran end at their next step."


def _queued(count: int, left: int) -> str:
    stayed = f" {left:,} stayed as they were: somebody else was faster, or a quota has no room." if left > 0 else ""
    return f"{jobs(count)} queued anew.{stayed}"


async def _asked(request: AnyRequest, services: Services, act: Act) -> Template:
    """The page, or the dialog's inside, that tells what is meant and asks."""
    search, where = _meant(request, services, act)
    counted = await act.count(services, where)
    return await page(
        request,
        "jobs-many.html",
        title=f"{act.verb.capitalize()} jobs",
        verb=act.verb,
        counted=counted,
        jobs=jobs(counted.count, or_more=counted.at_least),
        words=in_words(where, await key_names(services)),
        action=f"{PATH}/{act.verb}?{urlencode(search.pairs)}",
        back=_list_of(search),
    )


async def _acted(request: AnyRequest, services: Services, act: Act, told: Callable[[int, int], str]) -> Response[bytes]:
    """Do what was confirmed; ``told`` says in words how many were reached, and how many were left of what was seen."""
    (search, where), by = _meant(request, services, act), actor(request)
    seen = struct_of(_shown(await posted(request)), Confirmed)
    where = act.until(where, seen.as_of)
    if not seen.all:
        confirmed(await act.count(services, where), seen.expected)
    count, more = await _repeated(services, act, where, by)
    left = 0 if seen.all or more else seen.expected - count
    if more:
        again = f"{told(count, left)} There are more: {act.verb} again to go on."
        return done(request, _list_of(search), again, kind="warn")
    return done(request, _list_of(search), told(count, left))


async def _repeated(services: Services, act: Act, where: JobFilter, by: Actor) -> tuple[int, bool]:
    """Act on some after some until nothing is left or time is up: on how many, and whether more are."""
    end, count = time.monotonic() + _LONGEST_S, 0
    while True:  # some of a search may have none in it, and the cursor goes on
        reached = await act.some(services, where, _A_ROUND, by)
        count += len(reached.job_ids)
        if reached.next_cursor is None or time.monotonic() >= end:
            return count, reached.next_cursor is not None
        where = replace(where, cursor=reached.next_cursor)


def _meant(request: AnyRequest, services: Services, act: Act) -> tuple[Search, JobFilter]:
    """What the page's address names, and of that what the act reaches. Raises ProblemError where that is nothing."""
    search = search_of(request, services)
    if search.where == JobFilter():
        raise invalid("filter", "name something in the filter first: without one, all jobs are meant")
    states = within(search.where, act.states)
    if not states:
        raise invalid("state", f"jobs that are {' or '.join(search.where.states)} can't be {act.done}")
    return search, replace(search.where, states=states)


def _shown(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: fields[name] for name in Confirmed.__struct_fields__ if fields.get(name)}


def _list_of(search: Search) -> str:
    return f"{PATH}?{urlencode(search.pairs)}"


MANY_ROUTES = (ask_cancel, cancel, ask_redrive, redrive)
