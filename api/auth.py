"""Who asks, and what they may see and do.

Every route under /v1 names the scope that a key needs for it, by ``opt=READ`` and so on; one that names none is for
admins. Where a request has the header that ``read_by`` names, it reads. ``json`` says that it takes a JSON body. With
``overseen`` it only looks, and a key with the scope observe may look there too, at everybody's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from litestar.connection import ASGIConnection
from litestar.datastructures import Headers
from litestar.handlers import BaseRouteHandler
from structlog.contextvars import bind_contextvars

from api.keyring import require_keys
from api.origins import check_json, check_origin, names_this_machine
from api.problems import ProblemError, not_found
from api.query_text import check_query
from api.services import Services
from jobstore.audit import Actor
from jobstore.job import Job
from jobstore.keys import ApiKey, Scope
from safelight.telemetry import get_logger

__all__ = [
    "ADMIN",
    "ANY_KEY",
    "LOOK",
    "OBSERVE",
    "READ",
    "SUBMIT",
    "Connection",
    "actor",
    "actor_for",
    "address_of",
    "bound_to",
    "find_job",
    "is_stranger",
    "may_stay",
    "needs_admin",
    "needs_key",
    "needs_model",
    "needs_observer",
    "owns",
    "parse_job_id",
    "require_keys",
    "sees",
    "viewer",
]

_log = get_logger(__name__)

Connection = ASGIConnection[Any, Any, Any, Any]

SUBMIT = {"scope": Scope.SUBMIT}
READ = {"scope": Scope.READ}
LOOK: dict[str, Any] = {"scope": Scope.READ, "overseen": True}
"""For looks that change nothing: at its own for a key that may read, at everybody's for one that may observe."""
OBSERVE = {"scope": Scope.OBSERVE}
ADMIN = {"scope": Scope.ADMIN}
ANY_KEY = {"scope": None}
"""For what a key of whatever scopes may do."""

_HEADERS = ("x-api-key", "api-key", "x-bf-vk")
_MAX_SECRET = 256


async def needs_key(request: Connection) -> None:
    """Let a request in: while nothing wants a key, of this process itself, or with a key that counts.

    Raises ProblemError: 401 without one, 403 to a key that lacks the scope of the route, and to another site's page.
    Goes before every request under /v1, not as a guard: Litestar copies the whole handler for each of those.
    """
    services: Services = request.app.state.services
    headers, handler = request.headers, request.route_handler
    wanted = await services.keys.wanted()
    check_origin(str(request.scope.get("method")), headers, guarded=wanted)
    secret = _secret(headers)
    if wanted and not services.keys.is_own(secret):
        key = request.scope["state"]["key"] = await _authenticate(request, secret, services)
        scope = _scope_of(headers, handler)
        if scope is not None and not _oversees(key, handler):
            _require(key, scope)
    check_query(request)
    if handler.opt.get("json"):
        check_json(headers)


async def is_stranger(headers: Headers, services: Services) -> bool:
    """True where a key is wanted and none that counts is sent: for who has to know before there is a request."""
    secret = _secret(headers)
    if services.keys.is_own(secret):
        return False
    try:
        return await services.keys.wanted() and (
            not 0 < len(secret) <= _MAX_SECRET or await services.keys.find(secret) is None
        )
    except Exception:  # nobody knows: the request itself is told what is wrong
        return True


async def may_stay(connection: Connection, job: Job) -> bool:
    """True while a request that was let in once, a stream of a job, would be let in again.

    As fresh as the key ring is.
    """
    services: Services = connection.app.state.services
    secret = _secret(connection.headers)
    if services.keys.is_own(secret) or not await services.keys.wanted():
        return True
    key = await services.keys.find(secret) if 0 < len(secret) <= _MAX_SECRET else None
    handler = connection.route_handler
    if key is None or not key.counts_from(address_of(connection)):
        return False
    if _oversees(key, handler):
        return True
    scope = _scope_of(connection.headers, handler)
    return (scope is None or key.allows(scope)) and owns(key, job.key_id)


async def needs_admin(connection: Connection, _handler: BaseRouteHandler) -> None:
    """Guard for documentation: open on loopback under its own name, else for admin keys."""
    await _needs_elsewhere(connection, Scope.ADMIN)


async def needs_observer(connection: Connection, _handler: BaseRouteHandler) -> None:
    """Guard for metrics: open on loopback under its own name, else for keys that may look at everything."""
    await _needs_elsewhere(connection, Scope.OBSERVE)


async def _needs_elsewhere(connection: Connection, scope: Scope) -> None:
    services: Services = connection.app.state.services
    secret = _secret(connection.headers)
    local = services.keys.loopback and names_this_machine(connection.headers)
    if local or services.keys.is_own(secret):
        return
    _require(await _authenticate(connection, secret, services), scope)


def _scope_of(headers: Headers, handler: BaseRouteHandler) -> Scope | None:
    """The scope that a route wants; None where any key will do."""
    read_by = handler.opt.get("read_by")
    if read_by is not None and headers.get(read_by, "").strip():
        return Scope.READ
    scope = handler.opt.get("scope", Scope.ADMIN)
    return None if scope is None else Scope(scope)


def _require(key: ApiKey, scope: Scope) -> None:
    if not key.allows(scope):
        kind = "an admin key" if scope is Scope.ADMIN else f"a key with the scope {scope.value}"
        raise ProblemError(403, "forbidden", f"this wants {kind}; the scopes of this one: {', '.join(key.scopes)}")


def needs_model(key: ApiKey | None, model: str, offered: Iterable[str]) -> None:
    """Raise a 403 where ``key`` may not use the model of that name; of those on offer it tells which it may."""
    if key is not None and not key.may_use(model):
        own = ", ".join(name for name in offered if key.may_use(name)) or "none that is on offer"
        detail = f"this key may not use the model {model}; it may use: {own}"
        raise ProblemError(403, "model_not_allowed", detail, field="model")


def actor(connection: Connection) -> Actor:
    """Who acts, as the audit log names them."""
    key = viewer(connection)
    return Actor(name="without a key") if key is None else Actor(name=key.name, key_id=key.id)


def actor_for(connection: Connection, owner: UUID | None) -> Actor | None:
    """Who acts on what belongs to ``owner``; None where that is who acts: what keys do with their own isn't audited."""
    key = viewer(connection)
    return None if owner == (None if key is None else key.id) else actor(connection)


def viewer(connection: Connection) -> ApiKey | None:
    """The key that the request came with; None where none is needed."""
    key: ApiKey | None = connection.scope["state"].get("key")
    return key


def sharer(connection: Connection) -> UUID | None:
    """Whose share of room and seats the request takes from; None where no key is needed: all are one then."""
    key = viewer(connection)
    return None if key is None else key.id


def bound_to(connection: Connection) -> ApiKey | None:
    """The key whose own things alone the request may see; None where it may see everybody's.

    Which is so where no key is needed, for admins, and for observers on the routes that only look.
    """
    key = viewer(connection)
    return None if key is None or key.admin or _oversees(key, connection.route_handler) else key


def sees(connection: Connection, owner: UUID | None) -> bool:
    """True where the request may see what belongs to ``owner``."""
    return owns(bound_to(connection), owner)


def owns(key: ApiKey | None, owner: UUID | None) -> bool:
    """True where ``key`` may do as it likes with what belongs to ``owner``: its own, and an admin everybody's."""
    return key is None or key.admin or owner == key.id


def _oversees(key: ApiKey, handler: BaseRouteHandler) -> bool:
    return bool(handler.opt.get("overseen")) and key.allows(Scope.OBSERVE)


async def find_job(connection: Connection, job_id: str) -> Job:
    """The job, if the request's key may see it. Missing and foreign ones are the same 404."""
    services: Services = connection.app.state.services
    job = await services.store.get(parse_job_id(job_id))
    if not sees(connection, job.key_id):
        raise not_found()
    bind_contextvars(job_id=str(job.id))
    return job


def parse_job_id(text: str) -> UUID:
    """The id in its canonical form of 36 characters; anything else is the 404 of a job that doesn't exist."""
    try:
        job_id = UUID(text)
    except ValueError:
        raise not_found() from None
    if str(job_id) != text.lower():
        raise not_found()
    return job_id


def address_of(connection: Connection) -> str | None:
    """The client's address, as trusted proxies tell it; None where it isn't known."""
    return connection.client.host if connection.client else None


async def _authenticate(connection: Connection, secret: str, services: Services) -> ApiKey:
    """The key of a secret. From outside of its networks it doesn't count: the answer is that to a wrong one."""
    key = await services.keys.find(secret) if 0 < len(secret) <= _MAX_SECRET else None
    if key is not None and not key.counts_from(address_of(connection)):
        _log.warning(
            "key used from outside of its networks",
            action="keys.wrong_network",
            key_id=str(key.id),
            address=address_of(connection),
        )
        key = None
    if key is None:
        detail = "an API key is needed, or the one sent is not valid; send it as Authorization: Bearer KEY"
        raise ProblemError(401, "invalid_api_key", detail, headers={"WWW-Authenticate": "Bearer"})
    bind_contextvars(key_id=str(key.id))
    return key


def _secret(headers: Headers) -> str:
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret.strip():
        return secret.strip()
    return next((headers[name].strip() for name in _HEADERS if name in headers), "")
