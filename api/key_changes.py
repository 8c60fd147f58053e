"""Making, changing, rotating and revoking API keys, as the API and the admin pages do it alike. Errors are problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from api.key_schemas import KeyMade, KeyView
from api.key_views import key_view, made_view
from api.problems import ProblemError, invalid
from api.services import Services
from jobstore.audit import Actor
from jobstore.errors import KeyNotFoundError, KeyNotInForceError, LastAdminError
from jobstore.key_fields import KeyFieldError, checked
from jobstore.keys import KeyChange, KeyFilter, NewKey, Scope, hint_of, make_secret


async def made_key(services: Services, fields: Mapping[str, Any], by: Actor, *, force: bool = False) -> KeyMade:
    """A new key, with its secret. Without ``force`` there must be an admin key in force, or this is one."""
    wanted = _checked(fields, services)
    if Scope.ADMIN not in wanted["scopes"] and not force:
        await _require_admins(services)
    secret = make_secret()
    new = NewKey(**wanted, secret_hash=services.keys.digester.kept(secret), hint=hint_of(secret))
    key = await services.store.create_key(new, by)
    services.keys.forget()
    return made_view(key, secret)


async def found_key(services: Services, key_id: str) -> KeyView:
    """The key of that id."""
    with _told():
        return key_view(await services.store.get_key(_parsed(key_id)))


async def changed_key(
    services: Services, key_id: str, fields: Mapping[str, Any], by: Actor, *, force: bool = False
) -> KeyView:
    """The key with other values for these fields. Without ``force`` an admin key must be left in force."""
    change = KeyChange(**_checked(fields, services))
    with _told():
        key = await services.store.change_key(_parsed(key_id), change, by, force=force)
    services.keys.forget()
    return key_view(key)


async def rotated_key(services: Services, key_id: str, grace_s: float, by: Actor) -> KeyMade:
    """The key with its new secret; the old one counts for ``grace_s`` more seconds."""
    secret = make_secret()
    digest = services.keys.digester.kept(secret)
    with _told():
        key = await services.store.rotate_key(_parsed(key_id), digest, hint_of(secret), by, grace_s=grace_s)
    services.keys.forget()
    return made_view(key, secret)


async def revoked_key(services: Services, key_id: str, by: Actor, *, force: bool = False) -> KeyView:
    """The key, ended for good. Without ``force`` an admin key must be left in force."""
    with _told():
        key = await services.store.revoke_key(_parsed(key_id), by, force=force)
    services.keys.forget()
    return key_view(key)


def _checked(fields: Mapping[str, Any], services: Services) -> dict[str, Any]:
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
