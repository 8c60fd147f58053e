"""What the form of the page of costs asks for, as the REST API's parameters."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any
from urllib.parse import unquote, urlencode

import msgspec
from litestar import Request
from litestar.datastructures import MultiDict
from msgspec import Struct

from api.cost_query import query_from
from api.problems import invalid
from jobstore.quotas import zones
from jobstore.reports.model import PLAIN_GROUPS, ReportQuery

ZONE_COOKIE = "safelight_zone"
"""Where the pages' script leaves the browser's time zone."""
MEASURES = {
    "charged": "Charged", "saved": "Saved by the cache", "gpu_seconds": "Device seconds", "jobs": "Jobs",
    "pictures": "Pictures",
}  # fmt: skip
MOST_GROUPS = 2
_DEFAULT_GROUP = "model"
_OWN = ("by", "show", "dimension", "value", "limit", "format")
_MOST_VALUE = 256


class Asked(Struct, frozen=True, kw_only=True):
    """A query, what its chart shows, and what the form shows again."""

    query: ReportQuery
    show: str
    dimension: str
    value: str
    key: str
    zone_known: bool

    @property
    def groups(self) -> tuple[str, ...]:
        """What rows are told apart by, as the form's two fields hold it."""
        plain = ["dim" if group.startswith("dim:") else group for group in self.query.by]
        return tuple([*plain, "", ""][:MOST_GROUPS])

    @property
    def filtered(self) -> bool:
        """True where not all jobs are meant."""
        return self.query.where != type(self.query.where)()

    def address(self, path: str, **other: str) -> str:
        """The same question under another path, or with other fields."""
        where = self.query.where
        plain = {name: getattr(where, name) for name in ("team", "customer", "model", "lane", "device", "cache")}
        fields = {
            "from": str(self.query.first), "to": str(self.query.last), "zone": self.query.zone, "show": self.show,
            "key": self.key, "dimension": self.dimension, "value": self.value, **plain, **other,
        }  # fmt: skip
        pairs = [(name, str(value)) for name, value in fields.items() if value]
        return f"{path}?{urlencode([*pairs, *(('by', group) for group in self.groups)])}"


def asked(request: Request[Any, Any, Any], limit: int) -> Asked:
    """What the address asks for. Empty fields count as not given. Raises ProblemError."""
    given = [(name, value.strip()) for name, value in request.query_params.multi_items()]
    first = {name: value for name, value in reversed(given) if value}
    dimension, value = (_short(name, first.get(name, "")) for name in ("dimension", "value"))
    show = first.get("show", "charged")
    if show not in MEASURES:
        raise invalid("show", f"show must be one of {', '.join(MEASURES)}")
    if value and not dimension:
        raise invalid("dimension", "dimension is missing: name the dimension that has the value")
    pairs = [(name, value) for name, value in given if value and name not in _OWN]
    pairs += [("by", group) for group in _groups(given, dimension)]
    if value:
        pairs.append((f"dim.{dimension}", value))
    zone_known = "zone" in first or browser_zone(request) is not None
    if "zone" not in first:
        pairs.append(("zone", browser_zone(request) or "UTC"))
    query = query_from(MultiDict([*pairs, ("limit", str(limit))]), None)
    return Asked(
        query=query, show=show, dimension=dimension, value=value, key=first.get("key", ""), zone_known=zone_known
    )


def browser_zone(request: Request[Any, Any, Any]) -> str | None:
    """The browser's time zone, where its script has told a known one."""
    zone = unquote(request.cookies.get(ZONE_COOKIE, ""))
    return zone if zone in zones() else None


def presets(query: ReportQuery, today: date) -> list[tuple[str, date, date, bool]]:
    """Spans of days that are often asked for: name, first, last, and whether it is the query's."""
    month = today.replace(day=1)
    before = month - timedelta(days=1)
    spans = (
        ("Today", today, today),
        ("7 days", today - timedelta(days=6), today),
        ("30 days", today - timedelta(days=29), today),
        ("This month", month, today),
        ("Last month", before.replace(day=1), before),
    )
    same = [name for name, first, last in spans if (first, last) == (query.first, query.last)]
    return [(name, first, last, name in same[-1:]) for name, first, last in spans]  # on the 30th, two are the same days


def _groups(given: Iterable[tuple[str, str]], dimension: str) -> list[str]:
    """The groups that are chosen; the model's where the address names no such field at all."""
    fields = [value for name, value in given if name == "by"]
    chosen = [value for value in fields if value] if fields else [_DEFAULT_GROUP]
    if len(chosen) > MOST_GROUPS:
        raise invalid("by", f"by names at most {MOST_GROUPS} groups on this page")
    if "dim" in chosen and not dimension:
        raise invalid("dimension", "dimension is missing: name the dimension to group by")
    for group in chosen:
        if group not in (*PLAIN_GROUPS, "dim"):
            raise invalid("by", f"by is one of {', '.join(PLAIN_GROUPS)} and dim")
    return list(dict.fromkeys(f"dim:{dimension}" if group == "dim" else group for group in chosen))


def _short(name: str, text: str) -> str:
    if len(text) > _MOST_VALUE or "\0" in text:
        raise invalid(name, f"{name} must be text of at most {_MOST_VALUE} characters")
    return text


def without_day(query: ReportQuery) -> tuple[str, ...]:
    """The groups beside the day."""
    return tuple(group for group in query.by if group != "day")


def by_day(query: ReportQuery, limit: int, *groups: str) -> ReportQuery:
    """The same question day by day."""
    return msgspec.structs.replace(query, by=("day", *groups), limit=limit)
