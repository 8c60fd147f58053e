"""Endpoints: addresses that are told of all jobs of a key. A key sees its own, an admin's and an observer's all."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Request, Response, delete, get, patch, post
from litestar.params import JSONBody, PathParameter

from api.auth import LOOK, SUBMIT, actor, actor_for, bound_to, owns, sees, viewer
from api.decoding import EndpointBody, EndpointPatchBody
from api.hooks import checked_url
from api.openapi import ServicesDependency, answers
from api.problems import ProblemError, invalid
from api.services import Services
from api.webhook_schemas import (
    DeliveryView,
    EndpointList,
    EndpointMade,
    EndpointPatch,
    EndpointRequest,
    EndpointView,
)
from api.webhook_views import delivery_view, endpoint_view
from jobstore.audit import Actor
from jobstore.live import WEBHOOKS_BELL
from jobstore.webhooks.errors import TooManyWebhooksError, WebhookNotFoundError
from jobstore.webhooks.model import Delivery, Endpoint, EndpointChanges, NewEndpoint
from jobstore.webhooks.signing import make_secret

AnyRequest = Request[Any, Any, Any]
WebhookPath = Annotated[str, PathParameter(description="The endpoint's id, a UUID.", schema_extra={"format": "uuid"})]

_SECRET = {"Cache-Control": "no-store"}


@get("/webhooks", opt=LOOK, summary="List webhook endpoints", responses=answers())
async def list_webhooks(request: AnyRequest, services: ServicesDependency) -> EndpointList:
    """Oldest first: those of the key that asks, all of them for admins and observers. Their secrets are not told.

    Who only observes sees no more than the host of others' addresses.
    """
    bound = bound_to(request)
    found = await services.store.endpoints(bound.id if bound else None, all_keys=bound is None)
    return EndpointList(data=tuple(_shown(request, endpoint) for endpoint in found))


@post(
    "/webhooks",
    status_code=201,
    dto=EndpointBody,
    return_dto=None,
    opt={**SUBMIT, "json": True},
    summary="Make a webhook endpoint",
    responses=answers(400, 409, 413, 415),
)
async def create_webhook(
    data: JSONBody[EndpointRequest], request: AnyRequest, services: ServicesDependency
) -> Response[EndpointMade]:
    """An address that is told of the key's jobs from now on, with the secret that signs, which is shown this once."""
    key = viewer(request)
    made = await make_endpoint(services, data, key.id if key else None, actor(request))
    headers = {**_SECRET, "Location": f"/v1/webhooks/{made.id}"}
    return Response(made, status_code=201, headers=headers)


async def make_endpoint(services: Services, data: EndpointRequest, key_id: UUID | None, by: Actor) -> EndpointMade:
    """An endpoint of the key, with its secret. Raises ProblemError."""
    target = checked_url(data.url, services.settings.webhooks, "url")
    secret, most = make_secret(), services.settings.webhooks.max_endpoints
    new = NewEndpoint(
        key_id=key_id,
        url=target.url,
        origin=target.origin,
        secret=secret,
        events=tuple(dict.fromkeys(data.events)),
        description=_text(data.description),
    )
    try:
        endpoint = await services.store.add_endpoint(new, most, by)
    except TooManyWebhooksError:
        detail = f"a key has at most {most} webhooks; delete one, or let one hear of more"
        raise ProblemError(409, "too_many_webhooks", detail) from None
    return _made(endpoint, secret)


@get("/webhooks/{webhook_id:str}", opt=LOOK, summary="Read a webhook endpoint", responses=answers(404))
async def read_webhook(webhook_id: WebhookPath, request: AnyRequest, services: ServicesDependency) -> EndpointView:
    """How it stands."""
    return _shown(request, await find_endpoint(request, services, webhook_id))


@patch(
    "/webhooks/{webhook_id:str}",
    dto=EndpointPatchBody,
    return_dto=None,
    opt={**SUBMIT, "json": True},
    summary="Change a webhook endpoint",
    responses=answers(400, 404, 413, 415),
)
async def change_webhook(
    webhook_id: WebhookPath, data: JSONBody[EndpointPatch], request: AnyRequest, services: ServicesDependency
) -> EndpointView:
    """Change what is named. Disabling gives up what waits for it; enabling forgets that it failed."""
    endpoint = await find_endpoint(request, services, webhook_id)
    return endpoint_view(await change_named(services, endpoint, data, actor(request)))


async def change_named(services: Services, endpoint: Endpoint, data: EndpointPatch, by: Actor) -> Endpoint:
    """The endpoint with what the patch names. Raises ProblemError."""
    given = {name: value for name, value in msgspec.structs.asdict(data).items() if value is not msgspec.UNSET}
    if "url" in given:
        target = checked_url(given["url"], services.settings.webhooks, "url")
        given |= {"url": target.url, "origin": target.origin}
    if "description" in given:
        given["description"] = _text(given["description"])
    return await services.store.change_endpoint(endpoint.id, EndpointChanges(**given), by)


@delete("/webhooks/{webhook_id:str}", opt=SUBMIT, summary="Delete a webhook endpoint", responses=answers(404))
async def delete_webhook(webhook_id: WebhookPath, request: AnyRequest, services: ServicesDependency) -> None:
    """Tell it of nothing more; what waits for it is given up."""
    endpoint = await find_endpoint(request, services, webhook_id)
    await services.store.delete_endpoint(endpoint.id, actor(request))


@post(
    "/webhooks/{webhook_id:str}/rotate",
    status_code=200,
    opt=SUBMIT,
    summary="Rotate a webhook endpoint's secret",
    responses=answers(404),
)
async def rotate_webhook(
    webhook_id: WebhookPath, request: AnyRequest, services: ServicesDependency
) -> Response[EndpointMade]:
    """A new secret, shown this once. The old one signs too until `previous_until`: time to change over."""
    endpoint = await find_endpoint(request, services, webhook_id)
    return Response(await rotate_named(services, endpoint, actor(request)), headers=_SECRET)


async def rotate_named(services: Services, endpoint: Endpoint, by: Actor) -> EndpointMade:
    """The endpoint with a new secret."""
    secret = make_secret()
    rotated = await services.store.rotate_endpoint(endpoint.id, secret, services.settings.webhooks.rotation_s, by)
    return _made(rotated, secret)


@post(
    "/webhooks/{webhook_id:str}/test",
    status_code=202,
    opt=SUBMIT,
    summary="Send a test to a webhook endpoint",
    responses=answers(404, 429),
)
async def test_webhook(webhook_id: WebhookPath, request: AnyRequest, services: ServicesDependency) -> DeliveryView:
    """Send it a `webhook.test`, if it is disabled too; the deliveries tell what came of it."""
    endpoint = await find_endpoint(request, services, webhook_id)
    return delivery_view(await send_test(services, endpoint, actor_for(request, endpoint.key_id)))


async def send_test(services: Services, endpoint: Endpoint, by: Actor | None = None) -> Delivery:
    """Send it a test; with ``by`` it is in the audit log. Raises ProblemError."""
    services.messages.take(endpoint.key_id, "tests and redeliveries of webhooks")
    delivery = await services.store.test_endpoint(endpoint.id, by)
    services.ring([WEBHOOKS_BELL])
    return delivery


async def find_endpoint(request: AnyRequest, services: Services, webhook_id: str) -> Endpoint:
    """The endpoint, if the request's key may see it. Missing and foreign ones are the same 404."""
    endpoint = await any_endpoint(services, webhook_id)
    if not sees(request, endpoint.key_id):
        raise _missing()
    return endpoint


async def any_endpoint(services: Services, webhook_id: str) -> Endpoint:
    """The endpoint, whosever it is. Raises ProblemError."""
    try:
        return await services.store.endpoint(UUID(webhook_id))
    except (ValueError, WebhookNotFoundError):
        raise _missing() from None


def _shown(request: AnyRequest, endpoint: Endpoint) -> EndpointView:
    return endpoint_view(endpoint, with_path=owns(viewer(request), endpoint.key_id))


def _missing() -> ProblemError:
    return ProblemError(404, "webhook_not_found", "no webhook with that id")


def _made(endpoint: Endpoint, secret: str) -> EndpointMade:
    return EndpointMade(**msgspec.structs.asdict(endpoint_view(endpoint)), secret=secret)


def _text(description: str) -> str:
    if "\0" in description:
        raise invalid("description", "description holds the character U+0000")
    return description


WEBHOOK_ROUTES = (
    list_webhooks,
    create_webhook,
    read_webhook,
    change_webhook,
    delete_webhook,
    rotate_webhook,
    test_webhook,
)
