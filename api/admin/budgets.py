"""Budgets: the quotas of keys, teams and customers, and what of them is taken."""

from __future__ import annotations

import re
from typing import Annotated, Any
from uuid import UUID

from litestar import Response, get, post
from litestar.params import FromPath, QueryParameter
from litestar.response import Template

from api.admin.forms import posted, struct_of, text
from api.admin.quota_rows import full_or_near, quota_row
from api.admin.rendering import AnyRequest, done, page
from api.auth import actor
from api.key_names import owners_names
from api.openapi import ServicesDependency
from api.problems import invalid
from api.quota_changes import delete_quota_of, found_quota, limited_quota, made_quota
from api.quota_schemas import QuotaRequest
from api.quotas import quota_cursor
from api.services import Services
from api.wording import plainly
from jobstore.errors import KeyNotFoundError
from jobstore.key_fields import MAX_NAME
from jobstore.keys import OWNER_PATTERN, ApiKey, KeyFilter
from jobstore.quotas import QuotaKind, QuotaStatus, zones

_PATH = "/admin/budgets"
_A_PAGE = 50
_MOST_KEYS = 200
_OWNERS = ("key", "team", "customer")
_PERIODS = (
    ("1m", "a minute"), ("1h", "an hour"), ("1d", "a day"), ("1w", "a week"), ("1M", "a month"), ("1y", "a year"),
    ("24h", "24 hours, rolling"), ("30d", "30 days, rolling"), ("total", "all time"),
)  # fmt: skip

Owner = Annotated[str, QueryParameter(max_length=MAX_NAME)]


@get("/budgets")
async def show(
    request: AnyRequest,
    services: ServicesDependency,
    of: Annotated[str, QueryParameter(max_length=20)] = "",
    owner: Owner = "",
    only: Annotated[str, QueryParameter(max_length=20)] = "",
    cursor: Annotated[str, QueryParameter(max_length=100)] = "",
) -> Template:
    """Quotas as they stand, oldest first; by the kind of owner, a part of its name, or those nearly used."""
    if of not in ("", *_OWNERS):
        raise invalid("of", f"of must be one of {', '.join(_OWNERS)}")
    if only not in ("", "near"):
        raise invalid("only", "only must be near, or left out")
    after = quota_cursor(cursor or None)
    found = await _matching(services, await services.store.quotas(), of, owner.strip(), near=only == "near")
    rest = [status for status in found if after is None or status.quota.id > after]
    shown = rest[:_A_PAGE]
    names = await owners_names(services, shown)
    query = [(name, value) for name, value in (("of", of), ("owner", owner), ("only", only)) if value]
    return await page(
        request, "budgets.html", title="Budgets", rows=[quota_row(status, names) for status in shown], of=of,
        owner=owner, only=only, owners=_OWNERS, query=query,
        next_cursor=str(shown[-1].quota.id) if len(rest) > len(shown) else None,
    )  # fmt: skip


@get("/budgets/new")
async def new(
    request: AnyRequest,
    services: ServicesDependency,
    key: Annotated[str, QueryParameter(max_length=36)] = "",
    team: Owner = "",
    customer: Owner = "",
) -> Template:
    """The form for another one, for the owner that is named, if one is."""
    keys = list(await services.store.list_keys(KeyFilter(state="in_force", limit=_MOST_KEYS)))
    if key and key not in {str(known.id) for known in keys}:
        keys += await _key(services, key)
    of = "key" if key else "customer" if customer else "team"
    return await page(
        request, "budget-form.html", title="New budget", keys=keys, key=key, team=team, customer=customer, of=of,
        teams=sorted({known.team for known in keys if known.team}),
        customers=sorted({known.customer for known in keys if known.customer}),
        kinds=[kind.value for kind in QuotaKind], periods=_PERIODS, zones=sorted(zones()),
        currency=services.settings.jobs.currency,
    )  # fmt: skip


@post("/budgets")
async def create(request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Make it; it counts from now on."""
    fields = await posted(request)
    status = await made_quota(services, struct_of(_asked(fields), QuotaRequest), actor(request))
    return done(request, _PATH, f"Made: {_sentence(status)}. It counts what is submitted from now on.")


@post("/budgets/{quota_id:str}/limit")
async def limit(quota_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Change how much it is."""
    fields = await posted(request)
    quota = await found_quota(services, quota_id)
    status = await limited_quota(services, quota, _limit(fields, quota.kind), actor(request))
    return done(request, _PATH, f"Now {_sentence(status)}.")


@post("/budgets/{quota_id:str}/delete")
async def delete(quota_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Lift it, and forget what was counted."""
    quota = await found_quota(services, quota_id)
    await delete_quota_of(services, quota, actor(request))
    return done(request, _PATH, "Deleted: there is no such limit any more.")


def _asked(fields: dict[str, str]) -> dict[str, Any]:
    """The form's fields as the API takes them. Raises ProblemError naming the field."""
    kind = next((kind for kind in QuotaKind if kind == fields.get("kind")), None)
    if kind is None:
        raise invalid("kind", plainly("kind", ""))
    rolling = fields.get("window") == "rolling"
    given: dict[str, Any] = {"owner": _owner(fields), "kind": kind, "limit": _limit(fields, kind)}
    if kind is QuotaKind.CONCURRENCY:
        return given
    zone = fields.get("zone") or None
    plain = rolling or fields.get("period", "total") in ("", "total")  # those have no midnight
    return given | {"period": fields.get("period") or None, "rolling": rolling, "zone": None if plain else zone}


def _owner(fields: dict[str, str]) -> dict[str, str]:
    of = fields.get("owner", "")
    if of not in _OWNERS:
        raise invalid("owner", "choose whose budget it is")
    name = text(fields, of, most=64)
    if of == "key":
        try:
            UUID(name)
        except ValueError:
            raise invalid("key", "choose a key") from None
    elif not re.fullmatch(OWNER_PATTERN, name):
        raise invalid(of, plainly(of, ""))
    return {of: name}


def _limit(fields: dict[str, str], kind: QuotaKind) -> int | str:
    """An amount as it was typed, digit for digit, or a whole number."""
    limit = text(fields, "limit", most=20)
    if kind is QuotaKind.SPEND:
        return limit
    if not re.fullmatch(r"[0-9]{1,9}", limit, re.ASCII):
        raise invalid("limit", "limit must be a whole number: jobs and submits are counted")
    return int(limit)


def _sentence(status: QuotaStatus) -> str:
    return status.quota.label.replace("this key", "the key")


async def _matching(
    services: Services, statuses: tuple[QuotaStatus, ...], of: str, owner: str, *, near: bool
) -> list[QuotaStatus]:
    """Those of owners of a kind whose name, or a key's id, holds the text."""
    named: set[str] = set()
    if owner and of in ("", "key"):
        found = await services.store.list_keys(KeyFilter(text=owner, limit=_MOST_KEYS))
        named = {str(key.id) for key in found}
    return [
        status
        for status in statuses
        if of in ("", status.quota.owner_kind)
        and (owner.lower() in status.quota.owner.lower() or status.quota.owner in named)
        and (not near or full_or_near(status))
    ]


async def _key(services: Services, key_id: str) -> tuple[ApiKey, ...]:
    try:
        return (await services.store.get_key(UUID(key_id)),)
    except (ValueError, KeyNotFoundError):
        return ()


BUDGET_ROUTES = (show, new, create, limit, delete)
