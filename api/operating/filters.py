"""Which jobs a request means, from its query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

import msgspec
from litestar.di import NamedDependency
from litestar.params import QueryParameter, SkipValidation

from api.problems import invalid
from api.services import Services
from jobstore.job import JobState
from jobstore.keys import ApiKey
from jobstore.operating.jobs import JobFilter

FILTERS = (
    "state", "model", "lane", "key", "worker", "host", "dimension", "text", "error_code",
    "created_after", "created_before", "finished_after", "finished_before",
)  # fmt: skip
"""The query parameters that choose jobs."""

_MOST_DIMENSIONS = 16
_NAME = r"[a-z0-9_-]{1,64}"
_MAX_VALUE = 256
_MAX_TIME = 40


def job_filter(
    in_state: Annotated[
        list[JobState] | None,
        QueryParameter(name="state", max_items=7, description="Only jobs in one of these states; may be repeated."),
    ] = None,
    model: Annotated[
        str | None,
        QueryParameter(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}\Z", description="Only jobs of this model."),
    ] = None,
    lane: Annotated[
        str | None, QueryParameter(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}\Z", description="Only jobs of this lane.")
    ] = None,
    key: Annotated[
        UUID | None, QueryParameter(description="Only jobs of this API key; for admins and observers.")
    ] = None,
    worker: Annotated[
        UUID | None, QueryParameter(description="Only jobs that this worker has or had; for admins and observers.")
    ] = None,
    host: Annotated[
        str | None,
        QueryParameter(
            min_length=1, max_length=255, description="The same by the worker's host; for admins and observers."
        ),
    ] = None,
    dimension: Annotated[
        list[str] | None,
        QueryParameter(description="Only jobs with this dimension, as `name:value`; may be repeated."),
    ] = None,
    text: Annotated[
        str | None,
        QueryParameter(min_length=1, max_length=200, description="A part of the prompt, or a job's whole id."),
    ] = None,
    error_code: Annotated[
        str | None, QueryParameter(pattern=r"^[a-z][a-z0-9_]{0,63}\Z", description="Only jobs that ended with this.")
    ] = None,
    created_after: Annotated[
        str | None, QueryParameter(max_length=_MAX_TIME, description="RFC 3339, with a time zone.")
    ] = None,
    created_before: Annotated[
        str | None, QueryParameter(max_length=_MAX_TIME, description="RFC 3339, with a time zone.")
    ] = None,
    finished_after: Annotated[
        str | None, QueryParameter(max_length=_MAX_TIME, description="The same of their ends.")
    ] = None,
    finished_before: Annotated[
        str | None, QueryParameter(max_length=_MAX_TIME, description="The same of their ends.")
    ] = None,
) -> JobFilter:
    """The filter as the query has it; whose jobs it may name is for ``visible``."""
    return JobFilter(
        states=tuple(dict.fromkeys(in_state or ())),
        model=model,
        lane=lane,
        key_id=key,
        worker_id=worker,
        host=host,
        dimensions=_dimensions(dimension or ()),
        text=text,
        error_code=error_code,
        created_after=_instant("created_after", created_after),
        created_before=_instant("created_before", created_before),
        finished_after=_instant("finished_after", finished_after),
        finished_before=_instant("finished_before", finished_before),
    )


FilterDependency = NamedDependency[SkipValidation[JobFilter]]


def visible(where: JobFilter, key: ApiKey | None, services: Services) -> JobFilter:
    """The filter as a request bound to ``key`` may ask it: for its own jobs alone; aliases of models resolved."""
    where = msgspec.structs.replace(where, model=own_name(where.model, services))
    if key is None:
        return where
    for name, value in (("key", where.key_id), ("worker", where.worker_id), ("host", where.host)):
        if value is not None and value != key.id:
            raise invalid(name, f"{name} is for keys with the scope observe or admin: this one sees its own jobs alone")
    return msgspec.structs.replace(where, key_id=key.id)


def own_name(model: str | None, services: Services) -> str | None:
    """A model's own name, where an alias is asked for; names of models that are gone stay as they are."""
    found = services.settings.find_model(model) if model else None
    return found[0] if found else model


def _dimensions(pairs: Sequence[str]) -> dict[str, str]:
    if len(pairs) > _MOST_DIMENSIONS:
        raise invalid("dimension", f"dimension may be named {_MOST_DIMENSIONS} times at most")
    named: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition(":")
        if not re.fullmatch(_NAME, name) or len(value) > _MAX_VALUE or ":" not in pair:
            raise invalid("dimension", "dimension is written name:value, like team:red")
        named[name] = value
    return named


def _instant(name: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text.replace(" ", "+"))  # a plus that was not quoted came as a blank
        in_utc = at.astimezone(UTC) if at.tzinfo is not None else None
    except (ValueError, OverflowError):  # in UTC it may be before the year 1, or after 9999
        in_utc = None
    if in_utc is None:
        raise invalid(name, f"{name} is a time with a time zone, like 2030-01-31T12:00:00Z")
    return in_utc
