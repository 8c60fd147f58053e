"""Who asks, and what they may see."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from structlog.contextvars import bind_contextvars

from api.keyring import require_keys
from api.origins import names_this_machine
from api.problems import ProblemError, not_found
from api.services import Services
from jobstore.job import Job
from jobstore.protocol import ApiKey

__all__ = [
    "Connection",
    "admins_only",
    "find_job",
    "may_stay",
    "needs_admin",
    "needs_key",
    "parse_job_id",
    "require_keys",
    "viewer",
]

Connection = ASGIConnection[Any, Any, Any, Any]

_HEADERS = ("x-api-key", "api-key", "x-bf-vk")
_MAX_SECRET = 256


async def needs_key(connection: Connection, _handler: BaseRouteHandler) -> None:
    """Guard: open while nothing wants a key and for this process itself, else 401 without one that counts."""
    services: Services = connection.app.state.services
    if not services.keys.is_own(_secret(connection)) and await services.keys.wanted():
        connection.state.key = await _authenticate(connection, services)


async def may_stay(connection: Connection) -> bool:
    """True while a request that was let in once, a stream, would be let in again. As fresh as the key ring is."""
    services: Services = connection.app.state.services
    secret = _secret(connection)
    if services.keys.is_own(secret) or not await services.keys.wanted():
        return True
    return 0 < len(secret) <= _MAX_SECRET and await services.keys.find(secret) is not None


async def needs_admin(connection: Connection, _handler: BaseRouteHandler) -> None:
    """Guard for metrics and documentation: open on loopback under its own name, else for admin keys."""
    services: Services = connection.app.state.services
    local = services.keys.loopback and names_this_machine(connection)
    if local or services.keys.is_own(_secret(connection)):
        return
    if not (await _authenticate(connection, services)).admin:
        raise ProblemError(403, "forbidden", "this wants an admin key")


async def admins_only(connection: Connection, _handler: BaseRouteHandler) -> None:
    """Guard for what concerns everybody's jobs, after ``needs_key``: where a key is wanted, an admin's."""
    key = viewer(connection)
    if key is not None and not key.admin:
        raise ProblemError(403, "forbidden", "this wants an admin key")


def viewer(connection: Connection) -> ApiKey | None:
    """The key that the request came with; None where none is needed."""
    key: ApiKey | None = connection.state.get("key")
    return key


async def find_job(connection: Connection, job_id: str) -> Job:
    """The job, if the request's key may see it. Missing and foreign ones are the same 404."""
    services: Services = connection.app.state.services
    job = await services.store.get(parse_job_id(job_id))
    key = viewer(connection)
    if key is not None and not key.admin and job.key_id != key.id:
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


async def _authenticate(connection: Connection, services: Services) -> ApiKey:
    secret = _secret(connection)
    key = await services.keys.find(secret) if 0 < len(secret) <= _MAX_SECRET else None
    if key is None:
        detail = "an API key is needed, or the one sent is not valid; send it as Authorization: Bearer KEY"
        raise ProblemError(401, "invalid_api_key", detail, headers={"WWW-Authenticate": "Bearer"})
    bind_contextvars(key_id=str(key.id))
    return key


def _secret(connection: Connection) -> str:
    scheme, _, secret = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret.strip():
        return secret.strip()
    return next((connection.headers[name].strip() for name in _HEADERS if name in connection.headers), "")
