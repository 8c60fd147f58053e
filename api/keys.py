"""API keys: making, changing, rotating and revoking them, for admins; looking at them, for observers too."""

from __future__ import annotations

from typing import Annotated, Any, get_args
from uuid import UUID

import msgspec
from litestar import Request, Response, get, patch, post
from litestar.params import JSONBody, PathParameter, QueryParameter

from api.auth import ADMIN, OBSERVE, actor
from api.decoding import KeyBody, KeyPatchBody, RotateBody
from api.key_changes import changed_key, found_key, made_key, revoked_key, rotated_key
from api.key_schemas import KeyList, KeyMade, KeyPatch, KeyRequest, KeyView, RotateRequest
from api.key_views import key_view
from api.openapi import ServicesDependency, answers
from api.problems import invalid
from api.services import Services
from api.wording import plainly, unknown
from jobstore.key_fields import MAX_NAME
from jobstore.keys import KeyFilter, KeyState

AnyRequest = Request[Any, Any, Any]
KeyPath = Annotated[str, PathParameter(description="The key's id, a UUID.", schema_extra={"format": "uuid"})]
Force = Annotated[bool, QueryParameter(description="Even if no admin key is in force afterwards.")]

_LIST_PARAMETERS = ("team", "customer", "text", "state", "limit", "cursor")
KEY_STATES: tuple[KeyState, ...] = get_args(KeyState)
_OWNER = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"
_SECRET = {"Cache-Control": "no-store"}


@get("/keys", opt=OBSERVE, summary="List API keys", responses=answers(400))
async def list_keys(
    request: AnyRequest,
    services: ServicesDependency,
    team: Annotated[str | None, QueryParameter(pattern=_OWNER, description="Only keys of this team.")] = None,
    customer: Annotated[str | None, QueryParameter(pattern=_OWNER, description="Only keys of this customer.")] = None,
    text: Annotated[
        str | None, QueryParameter(max_length=MAX_NAME, description="Only keys whose name or hint holds this text.")
    ] = None,
    in_state: Annotated[
        str | None,
        QueryParameter(name="state", description="Only keys that are `in_force`, `expired` or `revoked`."),
    ] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=200, description="How many at most.")] = 50,
    cursor: Annotated[
        str | None, QueryParameter(pattern=r"^[!-~]{1,500}\Z", description="`next_cursor` of the page before.")
    ] = None,
) -> KeyList:
    """Keys oldest first, those that count no more too. Their secrets are not known any more."""
    for name in request.query_params:
        if name not in _LIST_PARAMETERS:
            raise invalid(name[:100], unknown(name, _LIST_PARAMETERS, "query parameter"))
    where = KeyFilter(limit=limit, team=team, customer=customer, text=text or None, state=key_state(in_state))
    return await key_list(services, where, cursor)


def key_state(text: str | None) -> KeyState | None:
    """The state that is asked for, in the store's words. Raises ProblemError."""
    known = next((state for state in KEY_STATES if state == text), None)
    if known is None and text:
        raise invalid("state", f"state must be one of {', '.join(KEY_STATES)}")
    return known


async def key_list(services: Services, where: KeyFilter, cursor: str | None) -> KeyList:
    """A page of the keys of a filter. Raises ProblemError on a cursor that no page gave."""
    try:
        after = None if cursor is None else UUID(cursor)
    except ValueError:
        raise invalid("cursor", plainly("cursor", "")) from None
    found = await services.store.list_keys(msgspec.structs.replace(where, after=after, limit=where.limit + 1))
    more = str(found[where.limit - 1].id) if len(found) > where.limit else None
    return KeyList(data=tuple(key_view(key) for key in found[: where.limit]), next_cursor=more)


@post(
    "/keys",
    status_code=201,
    dto=KeyBody,
    return_dto=None,
    opt={**ADMIN, "json": True},
    summary="Make an API key",
    responses=answers(400, 409, 413, 415),
)
async def create_key(
    data: JSONBody[KeyRequest], request: AnyRequest, services: ServicesDependency, force: Force = False
) -> Response[KeyMade]:
    """A new key with its secret, which is shown this once: only a digest of it is kept.

    409 for the first key of all, unless it is an admin's: nobody could make another one over HTTP.
    """
    made = await made_key(services, msgspec.structs.asdict(data), actor(request), force=force)
    return Response(made, status_code=201, headers={**_SECRET, "Location": f"/v1/keys/{made.id}"})


@get("/keys/{key_id:str}", opt=OBSERVE, summary="Read an API key", responses=answers(404))
async def read_key(key_id: KeyPath, services: ServicesDependency) -> KeyView:
    """What the key may do, and until when."""
    return await found_key(services, key_id)


@patch(
    "/keys/{key_id:str}",
    dto=KeyPatchBody,
    return_dto=None,
    opt={**ADMIN, "json": True},
    summary="Change an API key",
    responses=answers(400, 404, 409, 413, 415),
)
async def change_key(
    key_id: KeyPath, data: JSONBody[KeyPatch], request: AnyRequest, services: ServicesDependency, force: Force = False
) -> KeyView:
    """Change what is named; it counts on every server within two seconds. 409 for a key that is revoked."""
    given = {name: value for name, value in msgspec.structs.asdict(data).items() if value is not msgspec.UNSET}
    return await changed_key(services, key_id, given, actor(request), force=force)


@post(
    "/keys/{key_id:str}/rotate",
    status_code=200,
    dto=RotateBody,
    return_dto=None,
    opt={**ADMIN, "json": True},
    summary="Give an API key another secret",
    responses=answers(400, 404, 409, 413, 415),
)
async def rotate_key(
    key_id: KeyPath, data: JSONBody[RotateRequest], request: AnyRequest, services: ServicesDependency
) -> Response[KeyMade]:
    """The key with its new secret, shown once. The old one counts for `grace_s` more seconds, any older one not."""
    made = await rotated_key(services, key_id, data.grace_s, actor(request))
    return Response(made, status_code=200, headers=_SECRET)


@post(
    "/keys/{key_id:str}/revoke",
    status_code=200,
    opt=ADMIN,
    summary="Revoke an API key",
    responses=answers(400, 404, 409),
)
async def revoke_key(
    key_id: KeyPath, request: AnyRequest, services: ServicesDependency, force: Force = False
) -> KeyView:
    """End the key for good, within two seconds on every server. 409 for the last admin key in force."""
    return await revoked_key(services, key_id, actor(request), force=force)
