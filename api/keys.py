"""API keys: making, listing, changing, rotating and revoking them. For admins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Request, Response, get, patch, post
from litestar.params import JSONBody, PathParameter, QueryParameter

from api.auth import ADMIN, actor
from api.decoding import KeyBody, KeyPatchBody, RotateBody
from api.key_schemas import KeyList, KeyMade, KeyPatch, KeyRequest, KeyView, RotateRequest
from api.openapi import ServicesDependency, answers
from api.problems import ProblemError, invalid
from api.services import Services
from api.wording import plainly, unknown
from jobstore.errors import KeyNotFoundError, KeyNotInForceError, LastAdminError
from jobstore.key_fields import KeyFieldError, checked
from jobstore.keys import ApiKey, KeyChange, KeyFilter, NewKey, Scope, hint_of, make_secret

AnyRequest = Request[Any, Any, Any]
KeyPath = Annotated[str, PathParameter(description="The key's id, a UUID.", schema_extra={"format": "uuid"})]
Force = Annotated[bool, QueryParameter(description="Even if no admin key is in force afterwards.")]

_LIST_PARAMETERS = ("team", "customer", "limit", "cursor")
_OWNER = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_SECRET = {"Cache-Control": "no-store"}


@get("/keys", opt=ADMIN, summary="List API keys", responses=answers(400))
async def list_keys(
    request: AnyRequest,
    services: ServicesDependency,
    team: Annotated[str | None, QueryParameter(pattern=_OWNER, description="Only keys of this team.")] = None,
    customer: Annotated[str | None, QueryParameter(pattern=_OWNER, description="Only keys of this customer.")] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=200, description="How many at most.")] = 50,
    cursor: Annotated[
        str | None, QueryParameter(pattern=r"^[!-~]{1,500}$", description="`next_cursor` of the page before.")
    ] = None,
) -> KeyList:
    """Keys oldest first, those that count no more too. Their secrets are not known any more."""
    for name in request.query_params:
        if name not in _LIST_PARAMETERS:
            raise invalid(name[:100], unknown(name, _LIST_PARAMETERS, "query parameter"))
    try:
        after = None if cursor is None else UUID(cursor)
    except ValueError:
        raise invalid("cursor", plainly("cursor", "")) from None
    where = KeyFilter(after=after, limit=limit + 1, team=team, customer=customer)
    found = await services.store.list_keys(where)
    more = str(found[limit - 1].id) if len(found) > limit else None
    return KeyList(data=tuple(_view(key) for key in found[:limit]), next_cursor=more)


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
    fields = _checked(msgspec.structs.asdict(data), services)
    if Scope.ADMIN not in fields["scopes"] and not force:
        await _require_admins(services)
    secret = make_secret()
    new = NewKey(**fields, secret_hash=services.keys.digester.kept(secret), hint=hint_of(secret))
    key = await services.store.create_key(new, actor(request))
    services.keys.forget()
    return Response(_made(key, secret), status_code=201, headers={**_SECRET, "Location": f"/v1/keys/{key.id}"})


@get("/keys/{key_id:str}", opt=ADMIN, summary="Read an API key", responses=answers(404))
async def read_key(key_id: KeyPath, services: ServicesDependency) -> KeyView:
    """What the key may do, and until when."""
    with _told():
        return _view(await services.store.get_key(_parsed(key_id)))


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
    change = KeyChange(**_checked(given, services))
    with _told():
        key = await services.store.change_key(_parsed(key_id), change, actor(request), force=force)
    services.keys.forget()
    return _view(key)


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
    secret = make_secret()
    digest = services.keys.digester.kept(secret)
    with _told():
        key = await services.store.rotate_key(
            _parsed(key_id), digest, hint_of(secret), actor(request), grace_s=data.grace_s
        )
    services.keys.forget()
    return Response(_made(key, secret), status_code=200, headers=_SECRET)


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
    with _told():
        key = await services.store.revoke_key(_parsed(key_id), actor(request), force=force)
    services.keys.forget()
    return _view(key)


def _checked(fields: dict[str, Any], services: Services) -> dict[str, Any]:
    """The fields as the store takes them. Raises ProblemError naming the one that it doesn't."""

    def own_name(model: str) -> str | None:
        found = services.settings.find_model(model)
        return found[0] if found else None

    try:
        return checked(fields, own_name)
    except KeyFieldError as error:
        raise invalid(error.field, str(error)) from None


async def _require_admins(services: Services) -> None:
    if not await services.store.list_keys(KeyFilter(admins=True, limit=1)):
        detail = (
            "no admin key is in force, so with this one alone nobody could look after keys over HTTP: make an admin's "
            "first (scopes: admin), or send force=true"
        )
        raise ProblemError(409, "no_admin_key", detail)


@contextmanager
def _told() -> Iterator[None]:
    """Turn what the store says about a key into problems."""
    try:
        yield
    except KeyNotFoundError:
        raise _not_found() from None
    except KeyNotInForceError as error:
        raise ProblemError(409, "key_not_in_force", str(error)) from None
    except LastAdminError as error:
        detail = f"{error}: nobody could look after keys over HTTP any more; make another one first, or send force=true"
        raise ProblemError(409, "last_admin_key", detail) from None


def _not_found() -> ProblemError:
    return ProblemError(404, "key_not_found", "no key with that id")


def _parsed(text: str) -> UUID:
    """The id in its canonical form of 36 characters. Raises ProblemError: anything else is a key that isn't there."""
    try:
        key_id = UUID(text)
    except ValueError:
        raise _not_found() from None
    if str(key_id) != text.lower():
        raise _not_found()
    return key_id


def _view(key: ApiKey) -> KeyView:
    return KeyView(**_fields(key))


def _made(key: ApiKey, secret: str) -> KeyMade:
    return KeyMade(**_fields(key), secret=secret)


def _fields(key: ApiKey) -> dict[str, Any]:
    fields = msgspec.structs.asdict(key)
    del fields["admin"]  # the scope says it
    over = key.expires_at is not None and key.expires_at <= datetime.now(UTC)
    return fields | {"state": "revoked" if key.revoked_at else "expired" if over else "in_force"}
