"""What a request for a report asks for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
from litestar import Request
from litestar.datastructures import MultiDict

from api.auth import bound_to, owns
from api.problems import ProblemError, invalid
from api.wording import unknown
from jobstore.job import CacheOutcome
from jobstore.keys import ApiKey
from jobstore.quotas import zones
from jobstore.reports.model import ReportQuery, Where, check_query

FILTERS = ("team", "customer", "model", "lane", "device")
PARAMETERS = ("by", "from", "to", "zone", "limit", "format", "key", "cache", *FILTERS)
_DIMENSION = re.compile(r"dim\.([a-z0-9_-]{1,64})", re.ASCII)
_MOST_VALUE = 256
_MOST_DIMENSIONS = 16


def query_of(request: Request[Any, Any, Any]) -> ReportQuery:
    """The query that a request's parameters name, of what its key may see. Raises ProblemError."""
    return query_from(request.query_params, bound_to(request))


def query_from(given: MultiDict[str], key: ApiKey | None) -> ReportQuery:
    """The query that parameters name: this month until today where they don't; of the jobs of ``key`` alone, where
    one is given. Raises ProblemError."""
    dimensions = {}
    for name in given:
        if found := _DIMENSION.fullmatch(name):
            dimensions[found[1]] = _text(name, given[name])
        elif name not in PARAMETERS:
            raise invalid(name[:100], unknown(name, (*PARAMETERS, "dim.NAME"), "query parameter"))
    if len(dimensions) > _MOST_DIMENSIONS:
        raise invalid("dim", f"at most {_MOST_DIMENSIONS} dimensions can be named")
    zone = given.get("zone", "UTC")
    if zone not in zones():
        raise invalid("zone", "zone must be a time zone like Europe/Berlin")
    last = _day("to", given["to"]) if "to" in given else datetime.now(ZoneInfo(zone)).date()
    first = _day("from", given["from"]) if "from" in given else last.replace(day=1)
    if last < first:
        raise invalid("to", f"to must not be before {first}, the first day: {last} is")
    query = ReportQuery(
        first=first,
        last=last,
        zone=zone,
        by=_groups(given.getall("by", [])),
        where=Where(
            key_id=_key(key, given.get("key")),
            cache=_cache(given.get("cache")),
            dimensions=dimensions,
            **{name: _text(name, given[name]) for name in FILTERS if name in given},
        ),
        limit=_limit(given.get("limit")),
    )
    try:
        check_query(query)
    except ValueError as error:
        raise invalid(str(error).partition(" ")[0], str(error)) from None
    return query


def _groups(given: Sequence[str]) -> tuple[str, ...]:
    """``by=day&by=model``, or ``by=day,model``."""
    return tuple(group for text in given[:10] for group in text[:300].split(",") if group)


def _key(key: ApiKey | None, text: str | None) -> UUID | None:
    own = None if key is None else key.id
    if text is None:
        return own
    try:
        wanted = UUID(text)
    except ValueError:
        raise invalid("key", "key must be a key's id, a UUID") from None
    if not owns(key, wanted):
        raise ProblemError(
            403,
            "forbidden",
            "a key with the scope observe or admin may ask what another key's jobs cost",
            field="key",
        )
    return wanted


def _cache(text: str | None) -> CacheOutcome | None:
    try:
        return None if text is None else CacheOutcome(text)
    except ValueError:
        raise invalid("cache", "cache must be one of miss, hit and joined") from None


def _day(name: str, text: str) -> date:
    try:
        return msgspec.convert(text, date)
    except msgspec.ValidationError:
        raise invalid(name, f"{name} must be a day like {datetime.now(UTC).date()}") from None


def _limit(text: str | None) -> int:
    if text is None:
        return 1_000
    if not re.fullmatch(r"[0-9]{1,6}", text, re.ASCII):
        raise invalid("limit", "limit must be a whole number")
    return int(text)


def _text(name: str, text: str) -> str:
    if len(text) > _MOST_VALUE or "\0" in text:
        raise invalid(name, f"{name} must be text of at most {_MOST_VALUE} characters")
    return text
