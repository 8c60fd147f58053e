"""Endpoints of webhooks: who is told of jobs, how that goes, and changing it."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from litestar import Response, get, post
from litestar.params import FromPath
from litestar.response import Template
from msgspec import Struct

from api.admin.forms import optional, posted, struct_of, text, values
from api.admin.gate import current
from api.admin.known_keys import key_choices, key_names
from api.admin.rendering import AnyRequest, done, page
from api.auth import actor
from api.openapi import ServicesDependency
from api.problems import invalid
from api.services import Services
from api.webhook_schemas import EndpointPatch, EndpointRequest
from api.webhook_views import shown_address
from api.webhooks import any_endpoint, change_named, make_endpoint, rotate_named, send_test
from jobstore.errors import KeyNotFoundError
from jobstore.webhooks.model import ENDINGS, JOB_EVENTS, Endpoint, EndpointRecord

PATH = "/admin/webhooks"


class Row(Struct, frozen=True, kw_only=True):
    """An endpoint as the pages show it."""

    id: str
    address: str
    owner: str
    endpoint: Endpoint
    delivered_at: datetime | None
    failures: int
    state: str
    kind: str


@get("/webhooks")
async def show(request: AnyRequest, services: ServicesDependency) -> Template:
    """All endpoints with how they do."""
    names = await key_names(services)
    records = await services.store.endpoint_records()
    found = await services.store.endpoints(all_keys=True)
    rows = [_row(request, endpoint, records.get(endpoint.id), names) for endpoint in found]
    return await page(request, "webhooks.html", title="Webhooks", rows=rows)


@get("/webhooks/new")
async def new(request: AnyRequest, services: ServicesDependency) -> Template:
    """The form for another one."""
    keys = await key_choices(services)
    return await page(request, "webhook-new.html", title="New webhook", keys=keys, events=JOB_EVENTS, chosen=ENDINGS)


@post("/webhooks")
async def create(request: AnyRequest, services: ServicesDependency) -> Template:
    """Make it; its secret is shown this once."""
    fields = await posted(request)
    wanted = struct_of(
        {
            "url": text(fields, "url", most=2048),
            "events": await _events(request),
            "description": fields.get("description", ""),
        },
        EndpointRequest,
    )
    made = await make_endpoint(services, wanted, await _owner(services, optional(fields, "key")), actor(request))
    return await page(request, "webhook-secret.html", title="Webhook made", made=made, rotated=False)


@get("/webhooks/{webhook_id:str}")
async def look(webhook_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Template:
    """One, and what can be done about it."""
    endpoint = await any_endpoint(services, webhook_id)
    records = await services.store.endpoint_records()
    row = _row(request, endpoint, records.get(endpoint.id), await key_names(services))
    return await page(request, "webhook.html", title="Webhook", row=row, endpoint=endpoint, events=JOB_EVENTS)


@post("/webhooks/{webhook_id:str}")
async def change(webhook_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Another address, other events, another description."""
    endpoint = await any_endpoint(services, webhook_id)
    fields = await posted(request)
    wanted: dict[str, Any] = {"events": await _events(request), "description": fields.get("description", "")}
    if (url := text(fields, "url", most=2048)) != endpoint.url:
        wanted["url"] = url
    await change_named(services, endpoint, struct_of(wanted, EndpointPatch), actor(request))
    return done(request, f"{PATH}/{endpoint.id}", "Changed.")


@post("/webhooks/{webhook_id:str}/enable")
async def enable(webhook_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Let it hear of what happens from now on."""
    endpoint = await any_endpoint(services, webhook_id)
    await change_named(services, endpoint, EndpointPatch(disabled=False), actor(request))
    return done(request, f"{PATH}/{endpoint.id}", "Enabled: it hears of what happens from now on.")


@post("/webhooks/{webhook_id:str}/disable")
async def disable(webhook_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Let it hear of nothing."""
    endpoint = await any_endpoint(services, webhook_id)
    await change_named(services, endpoint, EndpointPatch(disabled=True), actor(request))
    return done(request, f"{PATH}/{endpoint.id}", "Disabled: it gets nothing, and what waited was given up.")


@post("/webhooks/{webhook_id:str}/rotate")
async def rotate(webhook_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Template:
    """Another secret, shown this once."""
    made = await rotate_named(services, await any_endpoint(services, webhook_id), actor(request))
    return await page(request, "webhook-secret.html", title="Secret rotated", made=made, rotated=True)


@post("/webhooks/{webhook_id:str}/test")
async def test(webhook_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Send it a test, and show what comes of it."""
    delivery = await send_test(services, await any_endpoint(services, webhook_id), actor(request))
    return done(request, f"{PATH}/deliveries/{delivery.id}", "A test is on its way.")


@post("/webhooks/{webhook_id:str}/delete")
async def delete(webhook_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Forget it."""
    endpoint = await any_endpoint(services, webhook_id)
    await services.store.delete_endpoint(endpoint.id, actor(request))
    return done(request, PATH, "Deleted: what waited for it was given up.")


def owner_of(key_id: UUID | None, names: dict[UUID, str]) -> str:
    """Whose jobs are told of."""
    return "jobs without a key" if key_id is None else names.get(key_id, str(key_id))


def address_for(request: AnyRequest, url: str) -> str:
    """A URL as whoever asks may see it."""
    operator = current(request)
    return shown_address(url, with_path=operator is not None and operator.may_change)


async def _events(request: AnyRequest) -> tuple[str, ...]:
    chosen = await values(request, "events")
    if not chosen:
        raise invalid("events", "events is missing: choose at least one")
    return chosen[:20]


async def _owner(services: Services, key: str | None) -> UUID | None:
    if key is None:
        return None
    try:
        return (await services.store.get_key(UUID(key))).id
    except (ValueError, KeyNotFoundError):
        raise invalid("key", "key must be the id of a key that there is") from None


def _row(request: AnyRequest, endpoint: Endpoint, record: EndpointRecord | None, names: dict[UUID, str]) -> Row:
    if endpoint.disabled_at is not None:
        state, kind = "disabled", "bad"
    elif endpoint.failing_since is not None:
        state, kind = "failing", "warn"
    else:
        state, kind = "enabled", "good"
    return Row(
        id=str(endpoint.id),
        address=address_for(request, endpoint.url),
        owner=owner_of(endpoint.key_id, names),
        endpoint=endpoint,
        delivered_at=record.delivered_at if record else None,
        failures=record.failures if record else 0,
        state=state,
        kind=kind,
    )


WEBHOOK_ROUTES = (show, new, create, look, change, enable, disable, rotate, test, delete)
