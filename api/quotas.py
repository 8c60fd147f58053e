"""Quotas over HTTP: admins make, change and clear them, every key reads its own."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from litestar import Request, Response, delete, get, patch, post
from litestar.params import JSONBody, PathParameter, QueryParameter

from api.auth import ADMIN, LOOK, actor, bound_to, viewer
from api.decoding import QuotaBody, QuotaPatchBody
from api.openapi import ServicesDependency, answers
from api.problems import invalid
from api.quota_changes import delete_quota_of, found_quota, limited_quota, made_quota, no_quota, parsed_quota_id
from api.quota_schemas import QuotaList, QuotaPatch, QuotaRequest, QuotaView
from api.quota_views import quota_view
from api.services import Services
from api.wording import plainly, unknown
from jobstore.keys import OWNER_PATTERN, ApiKey
from jobstore.quotas import Owner, OwnerKind
from jobstore.rules.quotas import owners_of

AnyRequest = Request[Any, Any, Any]
QuotaPath = Annotated[str, PathParameter(description="The quota's id, a UUID.", schema_extra={"format": "uuid"})]

_OWNER_KINDS: tuple[OwnerKind, ...] = ("key", "team", "customer")
_LIST_PARAMETERS = (*_OWNER_KINDS, "limit", "cursor")
_NAME = rf"^{OWNER_PATTERN}\Z"


@get("/quotas", opt=LOOK, summary="List quotas", responses=answers(400))
async def list_quotas(
    request: AnyRequest,
    services: ServicesDependency,
    key: Annotated[
        str | None, QueryParameter(pattern=r"^[0-9A-Fa-f-]{36}\Z", description="Those of the key of this id.")
    ] = None,
    team: Annotated[str | None, QueryParameter(pattern=_NAME, description="Those of this team.")] = None,
    customer: Annotated[str | None, QueryParameter(pattern=_NAME, description="Those of this customer.")] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=200, description="How many at most.")] = 50,
    cursor: Annotated[
        str | None, QueryParameter(pattern=r"^[!-~]{1,500}\Z", description="`next_cursor` of the page before.")
    ] = None,
) -> QuotaList:
    """Quotas as they stand, oldest first: all for admins and observers; for others those that bind them."""
    for name in request.query_params:
        if name not in _LIST_PARAMETERS:
            raise invalid(name[:100], unknown(name, _LIST_PARAMETERS, "query parameter"))
    named = zip(_OWNER_KINDS, (key, team, customer), strict=True)
    asked: list[Owner] = [(kind, name.lower() if kind == "key" else name) for kind, name in named if name is not None]
    after = quota_cursor(cursor)
    found = [view for owner, view in await _seen(services, bound_to(request)) if not asked or owner in asked]
    page = sorted((view for view in found if after is None or view.id > after), key=lambda view: view.id)
    more = str(page[limit - 1].id) if len(page) > limit else None
    return QuotaList(data=tuple(page[:limit]), next_cursor=more)


@post(
    "/quotas",
    status_code=201,
    dto=QuotaBody,
    return_dto=None,
    opt={**ADMIN, "json": True},
    summary="Make a quota",
    responses=answers(400, 404, 409, 413, 415),
)
async def create_quota(
    data: JSONBody[QuotaRequest], request: AnyRequest, services: ServicesDependency
) -> Response[QuotaView]:
    """Limit what a key, a team or a customer may spend, submit or have under way, from now on.

    409 where the owner has one of that kind for that period: change its limit.
    """
    view = quota_view(await made_quota(services, data, actor(request)), to=viewer(request))
    return Response(view, status_code=201, headers={"Location": f"/v1/quotas/{view.id}"})


@get("/quotas/{quota_id:str}", opt=LOOK, summary="Read a quota", responses=answers(404))
async def read_quota(quota_id: QuotaPath, request: AnyRequest, services: ServicesDependency) -> QuotaView:
    """The quota as it stands. One that the key may not see is the same 404 as one that isn't there."""
    wanted = parsed_quota_id(quota_id)
    for _, view in await _seen(services, bound_to(request)):
        if view.id == wanted:
            return view
    raise no_quota()


@patch(
    "/quotas/{quota_id:str}",
    status_code=200,
    dto=QuotaPatchBody,
    return_dto=None,
    opt={**ADMIN, "json": True},
    summary="Change a quota's limit",
    responses=answers(400, 404, 413, 415),
)
async def change_quota(
    quota_id: QuotaPath, data: JSONBody[QuotaPatch], request: AnyRequest, services: ServicesDependency
) -> Response[QuotaView | None]:
    """Set the limit; what was taken already stays taken. With null the quota is deleted, and the answer is 204."""
    quota = await found_quota(services, quota_id)
    if data.limit is None:
        await delete_quota_of(services, quota, actor(request))
        return Response(None, status_code=204)
    status = await limited_quota(services, quota, data.limit, actor(request))
    return Response(quota_view(status, to=viewer(request)), status_code=200)


@delete("/quotas/{quota_id:str}", opt=ADMIN, summary="Delete a quota", responses=answers(404))
async def delete_quota(quota_id: QuotaPath, request: AnyRequest, services: ServicesDependency) -> None:
    """Lift the limit, and forget what was counted for it. Jobs under way end as if it had never been."""
    await delete_quota_of(services, await found_quota(services, quota_id), actor(request))


async def _seen(services: Services, key: ApiKey | None) -> list[tuple[Owner, QuotaView]]:
    """The quotas that a request bound to ``key`` may see, each with its owner."""
    owners = None if key is None else owners_of(key.id, key.team, key.customer)
    found = await services.store.quotas(owners)
    return [((status.quota.owner_kind, status.quota.owner), quota_view(status, to=key)) for status in found]


def quota_cursor(text: str | None) -> UUID | None:
    """The quota after which a page begins. Raises ProblemError."""
    try:
        return None if text is None else UUID(text)
    except ValueError:
        raise invalid("cursor", plainly("cursor", "")) from None
