"""Deliveries of webhooks: what came of each message, and sending them anew."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from litestar import Request, get, post
from litestar.params import JSONBody, PathParameter, QueryParameter
from msgspec.structs import replace

from api.auth import ADMIN, LOOK, SUBMIT, actor, actor_for, bound_to, sees
from api.decoding import RedeliverBody
from api.openapi import ServicesDependency, answers
from api.problems import ProblemError, invalid
from api.services import Services
from api.webhook_schemas import DeliveryList, DeliveryView, Redelivered, RedeliverRequest
from api.webhook_views import delivery_view
from api.wording import plainly, unknown
from jobstore.audit import Actor
from jobstore.live import WEBHOOKS_BELL
from jobstore.webhooks.errors import WebhookDisabledError, WebhookNotFoundError
from jobstore.webhooks.model import Delivery, DeliveryFilter, DeliveryState, EventType

AnyRequest = Request[Any, Any, Any]
DeliveryPath = Annotated[
    str, PathParameter(description="The delivery's id, a UUID: its `webhook-id`.", schema_extra={"format": "uuid"})
]
_UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z"

AT_ONCE = 1_000
"""How many deliveries one call asks for anew, at most."""
_PARAMETERS = ("state", "type", "job_id", "webhook_id", "limit", "cursor")


@get("/webhooks/deliveries", opt=LOOK, summary="List deliveries of webhooks", responses=answers(400))
async def list_deliveries(
    request: AnyRequest,
    services: ServicesDependency,
    in_state: Annotated[
        DeliveryState | None, QueryParameter(name="state", description="Only deliveries in this state.")
    ] = None,
    of_type: Annotated[
        EventType | None, QueryParameter(name="type", description="Only deliveries of this event.")
    ] = None,
    job_id: Annotated[str | None, QueryParameter(pattern=_UUID, description="Only those about this job.")] = None,
    webhook_id: Annotated[str | None, QueryParameter(pattern=_UUID, description="Only those to this endpoint.")] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=200, description="How many at most.")] = 50,
    cursor: Annotated[
        str | None, QueryParameter(pattern=r"^[!-~]{1,500}\Z", description="`next_cursor` of the page before.")
    ] = None,
) -> DeliveryList:
    """Newest first: those about the jobs of the key that asks, all of them for an admin's or an observer's."""
    for name in request.query_params:
        if name not in _PARAMETERS:
            raise invalid(name[:100], unknown(name, _PARAMETERS, "query parameter"))
    bound = bound_to(request)
    where = DeliveryFilter(
        key_id=bound.id if bound else None,
        all_keys=bound is None,
        state=in_state,
        type=of_type,
        job_id=UUID(job_id) if job_id else None,
        endpoint_id=UUID(webhook_id) if webhook_id else None,
        limit=limit,
        cursor=cursor,
    )
    try:
        page = await services.store.deliveries(where)
    except ValueError:
        raise invalid("cursor", plainly("cursor", "")) from None
    return DeliveryList(
        data=tuple(delivery_view(delivery) for delivery in page.deliveries), next_cursor=page.next_cursor
    )


@post(
    "/webhooks/deliveries/redeliver",
    status_code=200,
    dto=RedeliverBody,
    return_dto=None,
    opt={**ADMIN, "json": True},
    summary="Deliver many webhooks anew",
    responses=answers(400, 409, 413, 415),
)
async def redeliver_many(
    data: JSONBody[RedeliverRequest], request: AnyRequest, services: ServicesDependency
) -> Redelivered:
    """Try failed deliveries at once and by a fresh schedule, the oldest first; those to disabled endpoints are left.

    With `dry_run` they are only counted; with `expected`, nothing is done where they are more. For admins.
    """
    where = DeliveryFilter(all_keys=True, type=data.type, job_id=data.job_id, endpoint_id=data.webhook_id)
    if data.dry_run:
        count = await count_failed(services, where)
    else:
        count = await redelivered(services, where, data.expected, actor(request))
    return Redelivered(dry_run=data.dry_run, count=count, more=count == AT_ONCE)


async def count_failed(services: Services, where: DeliveryFilter) -> int:
    """How many of the filter's could be tried anew, up to ``AT_ONCE``."""
    if where.state not in (None, DeliveryState.FAILED):
        return 0
    return await services.store.count_deliveries(replace(where, state=DeliveryState.FAILED), AT_ONCE)


async def redelivered(services: Services, where: DeliveryFilter, expected: int | None, by: Actor) -> int:
    """Try anew what failed of the filter's, the oldest first, as many as were counted. Raises ProblemError."""
    if expected is not None and (counted := await count_failed(services, where)) > expected:
        detail = f"{counted:,} failed deliveries match by now, and {expected:,} were asked about: look again"
        raise ProblemError(409, "count_changed", detail, field="expected")
    most = AT_ONCE if expected is None else expected
    count = await services.store.redeliver_many(replace(where, state=DeliveryState.FAILED), most, by)
    services.ring([WEBHOOKS_BELL])
    return count


@post(
    "/webhooks/deliveries/{delivery_id:str}/redeliver",
    status_code=202,
    opt=SUBMIT,
    summary="Deliver a webhook anew",
    responses=answers(404, 409, 429),
)
async def redeliver(delivery_id: DeliveryPath, request: AnyRequest, services: ServicesDependency) -> DeliveryView:
    """Try it at once and by a fresh schedule, under its old id, whatever came of it before."""
    delivery = await find_delivery(request, services, delivery_id)
    return delivery_view(await redeliver_named(services, delivery, actor_for(request, delivery.key_id)))


async def redeliver_named(services: Services, found: Delivery, by: Actor | None = None) -> Delivery:
    """Let it be tried anew; with ``by`` it is in the audit log. Raises ProblemError."""
    services.messages.take(found.key_id, "tests and redeliveries of webhooks")
    try:
        delivery = await services.store.redeliver(found.id, by)
    except WebhookDisabledError:
        detail = 'its endpoint is disabled; enable it first, with {"disabled": false}'
        raise ProblemError(409, "webhook_disabled", detail) from None
    services.ring([WEBHOOKS_BELL])
    return delivery


async def find_delivery(request: AnyRequest, services: Services, delivery_id: str) -> Delivery:
    """The delivery, if the request's key may see it. Missing and foreign ones are the same 404."""
    delivery = await any_delivery(services, delivery_id)
    if not sees(request, delivery.key_id):
        raise _missing()
    return delivery


async def any_delivery(services: Services, delivery_id: str) -> Delivery:
    """The delivery, whosever it is. Raises ProblemError."""
    try:
        return await services.store.delivery(UUID(delivery_id))
    except (ValueError, WebhookNotFoundError):
        raise _missing() from None


def _missing() -> ProblemError:
    return ProblemError(404, "delivery_not_found", "no delivery with that id")


DELIVERY_ROUTES = (list_deliveries, redeliver_many, redeliver)
