"""Deliveries of webhooks: what came of each message, what was in it, and sending them anew."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, QueryParameter
from litestar.response import Template
from msgspec import Meta, Struct

from api.admin.forms import posted, struct_of
from api.admin.known_keys import key_names
from api.admin.rendering import AnyRequest, done, page
from api.admin.webhooks import PATH as WEBHOOKS
from api.admin.webhooks import address_for, owner_of
from api.auth import actor
from api.deliveries import AT_ONCE, any_delivery, count_failed, redeliver_named, redelivered
from api.openapi import ServicesDependency
from api.problems import invalid
from api.wording import plainly
from jobstore.webhooks.model import DeliveryFilter, DeliveryState, EventType

PATH = f"{WEBHOOKS}/deliveries"
_PAGE = 50
_NAMES = ("webhook_id", "state", "type", "job_id")


class Confirmed(Struct, frozen=True, kw_only=True):
    """What whoever confirms has seen."""

    expected: Annotated[int, Meta(ge=1, le=AT_ONCE)]


@get("/webhooks/deliveries")
async def show(
    request: AnyRequest,
    services: ServicesDependency,
    cursor: Annotated[str | None, QueryParameter(pattern=r"^[!-~]{0,500}\Z")] = None,
) -> Template:
    """Newest first, as the filter has it."""
    where, pairs = filter_of(request.query_params)
    try:
        found = await services.store.deliveries(msgspec.structs.replace(where, limit=_PAGE, cursor=cursor or None))
    except ValueError:
        raise invalid("cursor", plainly("cursor", "")) from None
    endpoints = await services.store.endpoints(all_keys=True)
    names = await key_names(services)
    return await page(
        request, "deliveries.html", title="Deliveries", found=found.deliveries, next_cursor=found.next_cursor,
        pairs=pairs, where=where, states=[*DeliveryState], types=[*EventType],
        addresses={one.id: address_for(request, one.url) for one in endpoints},
        owners={one.id: owner_of(one.key_id, names) for one in endpoints},
        failed=await count_failed(services, where), at_once=AT_ONCE, query=urlencode(pairs),
    )  # fmt: skip


@get("/webhooks/deliveries/{delivery_id:str}")
async def look(delivery_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Template:
    """One, with its body."""
    delivery = await any_delivery(services, delivery_id)
    endpoints = {one.id: one for one in await services.store.endpoints(all_keys=True)}
    endpoint = endpoints.get(delivery.endpoint_id) if delivery.endpoint_id else None
    body = await services.store.delivery_body(delivery.id)
    return await page(
        request, "delivery.html", title="Delivery", delivery=delivery, body=_pretty(body),
        address=address_for(request, endpoint.url) if endpoint else None,
        disabled=bool(endpoint and endpoint.disabled_at),
        owner=owner_of(delivery.key_id, await key_names(services)),
    )  # fmt: skip


@post("/webhooks/deliveries/{delivery_id:str}/redeliver")
async def redeliver(delivery_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Try one anew."""
    delivery = await redeliver_named(services, await any_delivery(services, delivery_id), actor(request))
    return done(request, f"{PATH}/{delivery.id}", "It is tried anew, at once and by a fresh schedule.")


@post("/webhooks/deliveries/redeliver")
async def redeliver_all(request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Try anew what failed of the filter's, as many as were counted: more by now is asked about again."""
    where, pairs = filter_of(await posted(request))
    confirmed = struct_of({"expected": (await posted(request)).get("expected", "")}, Confirmed)
    count = await redelivered(services, where, confirmed.expected, actor(request))
    return done(request, f"{PATH}?{urlencode(pairs)}", f"{count:,} are tried anew.")


def filter_of(fields: Mapping[str, str]) -> tuple[DeliveryFilter, list[tuple[str, str]]]:
    """The filter of an address or a form, and the fields that are set. Raises ProblemError."""
    pairs = [(name, value) for name in _NAMES if (value := fields.get(name, "").strip())]
    named: dict[str, Any] = {"endpoint_id" if name == "webhook_id" else name: value for name, value in pairs}
    for name, kind in (("endpoint_id", UUID), ("job_id", UUID), ("state", DeliveryState), ("type", EventType)):
        if name in named:
            try:
                named[name] = kind(named[name])
            except ValueError:
                field = "webhook_id" if name == "endpoint_id" else name
                raise invalid(field, f"{field} must be {_WORDS[name]}") from None
    return DeliveryFilter(all_keys=True, **named), pairs


_WORDS = {
    "endpoint_id": "a webhook's id, a UUID",
    "job_id": "a job's whole id, a UUID",
    "state": f"one of {', '.join(DeliveryState)}",
    "type": f"one of {', '.join(EventType)}",
}


def _pretty(body: str | None) -> str | None:
    """A body with a line for each member; as it is, where it is no JSON."""
    try:
        return None if body is None else json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except ValueError:
        return body


DELIVERY_ROUTES = (show, redeliver_all, look, redeliver)
