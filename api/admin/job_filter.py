"""Which jobs a page's address means, and how pages tell so again: in the form, in links, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta, Struct, structs

from api.admin.forms import struct_of
from api.admin.local_times import local_time, with_zone
from api.admin.rendering import AnyRequest
from api.operating.filters import FILTERS, job_filter, own_name
from api.operating.jobs import only_known
from api.operating.schemas import ErrorCode, SearchText
from api.services import Services
from jobstore.job import JobState
from jobstore.operating.jobs import JobFilter
from safelight.config.settings import Lane, Name

TIMES = ("created_after", "created_before", "finished_after", "finished_before")
_RARE = frozenset({"dimension", "host", "worker", "error_code", *TIMES})
_SEVERAL = ("state", "dimension")
_Time = Annotated[str, Meta(max_length=40)]


class Asked(Struct, frozen=True, kw_only=True):
    """The fields of the form, within the bounds that the REST API has for them. What is left empty isn't asked."""

    state: Annotated[tuple[JobState, ...], Meta(max_length=7)] = ()
    model: Name | None = None
    lane: Lane | None = None
    key: UUID | None = None
    worker: UUID | None = None
    host: Annotated[str, Meta(max_length=255)] | None = None
    dimension: Annotated[tuple[str, ...], Meta(max_length=16)] = ()
    text: SearchText | None = None
    error_code: ErrorCode | None = None
    created_after: _Time | None = None
    created_before: _Time | None = None
    finished_after: _Time | None = None
    finished_before: _Time | None = None


class Search(Struct, frozen=True, kw_only=True):
    """What a page looks for: the filter, and the fields of its form as (name, value) pairs, none of them empty."""

    where: JobFilter
    pairs: tuple[tuple[str, str], ...]

    def field(self, name: str) -> str:
        """What the form's field holds; empty where it wasn't asked."""
        return next((value for known, value in self.pairs if known == name), "")

    @property
    def rare(self) -> bool:
        """Whether anything is asked that the form keeps folded away."""
        return any(name in _RARE for name, _ in self.pairs)

    @property
    def times(self) -> dict[str, str]:
        """The times as a form's fields take them, in UTC, by their names."""
        return {name: local_time(getattr(self.where, name)) for name in TIMES}


def search_of(request: AnyRequest, services: Services, *more: str) -> Search:
    """What the request's address asks; ``more`` are names beside the filter's. Raises ProblemError."""
    only_known(request, (*FILTERS, *more))
    fields = {name: _values(request, name) for name in FILTERS}
    sent = {name: values if name in _SEVERAL else values[-1] for name, values in fields.items() if values}
    where = _filter_of(struct_of(sent, Asked))
    pairs = tuple((name, value) for name, values in fields.items() for value in values)
    return Search(where=structs.replace(where, model=own_name(where.model, services)), pairs=pairs)


def has_blanks(request: AnyRequest) -> bool:
    """True where a form sent fields that nobody filled in: the address reads better without."""
    return any(not value.strip() for _, value in request.query_params.multi_items())


def in_words(where: JobFilter, keys: Mapping[UUID, str]) -> list[tuple[str, str]]:
    """What the filter names, each with its value."""
    told: list[tuple[str, Any]] = [
        ("state", " or ".join(where.states)),
        ("model", where.model),
        ("lane", where.lane),
        ("key", where.key_id and keys.get(where.key_id, str(where.key_id))),
        ("worker", where.worker_id),
        ("host", where.host),
        *((f"dimension {name}", value or "(empty)") for name, value in where.dimensions.items()),
        ("text", where.text),
        ("error", where.error_code),
        ("submitted from", local_time(where.created_after)),
        ("submitted before", local_time(where.created_before)),
        ("ended from", local_time(where.finished_after)),
        ("ended before", local_time(where.finished_before)),
    ]
    return [(name, str(value)) for name, value in told if value]


def _filter_of(asked: Asked) -> JobFilter:
    return job_filter(
        in_state=[*asked.state],
        model=asked.model,
        lane=asked.lane,
        key=asked.key,
        worker=asked.worker,
        host=asked.host,
        dimension=[*asked.dimension],
        text=asked.text,
        error_code=asked.error_code,
        **{name: with_zone(getattr(asked, name)) for name in TIMES},
    )


def _values(request: AnyRequest, name: str) -> list[str]:
    """What was sent under a name and isn't empty."""
    return [value.strip() for value in request.query_params.getall(name, []) if value.strip()]
