"""Signing in with an API key, and out again."""

from __future__ import annotations

import re
from typing import Annotated, Any

from litestar import Response, get, post
from litestar.params import QueryParameter
from litestar.response import Template

from api.admin.forms import posted
from api.admin.gate import PUBLIC, current
from api.admin.rendering import AnyRequest, done, page
from api.admin.sessions import PATH
from api.auth import address_of
from api.openapi import ServicesDependency
from api.problems import ProblemError
from api.services import Services
from jobstore.keys import ApiKey, Scope
from safelight.telemetry import get_logger

_log = get_logger(__name__)

_MAX_SECRET = 256
_MAX_NEXT = 2000
_INSIDE = re.compile(r"/admin(?:[/?][!-\[\]-~]*)?")  # no blank, control character or backslash
_TITLE = "Sign in"


@get("/sign-in", opt=PUBLIC)
async def sign_in_page(
    request: AnyRequest,
    next_path: Annotated[str, QueryParameter(name="next")] = PATH,
) -> Response[Any]:
    """The form that asks for a key; where none is wanted, or one is signed in, off to the pages."""
    if current(request) is not None:
        return done(request, inside(next_path))
    return await page(request, "sign-in.html", title=_TITLE, next=inside(next_path), problem=None)


@post("/sign-in", opt=PUBLIC)
async def sign_in(request: AnyRequest, services: ServicesDependency) -> Response[Any]:
    """Begin a session with the key that the form holds, which goes no further."""
    fields = await posted(request)
    next_path = inside(fields.get("next", PATH))
    try:
        key = await _key_of(request, services, fields.get("key", ""))
    except ProblemError as problem:
        return await _refused(request, next_path, problem)
    _log.info("signed in", action="admin.signed_in", key_id=str(key.id))
    answer = done(request, next_path)
    answer.set_cookie(await services.sessions.begin(key, request.url.scheme))
    return answer


@post("/sign-out", opt=PUBLIC)
async def sign_out(request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """End the session in this browser."""
    answer = done(request, f"{PATH}/sign-in", "You are signed out.")
    answer.set_cookie(services.sessions.end(request.url.scheme))
    return answer


def inside(path: str) -> str:
    """``path`` where it is one of the admin pages, else the first of them: nobody is sent elsewhere."""
    return path if len(path) <= _MAX_NEXT and _INSIDE.fullmatch(path) else PATH


async def _key_of(request: AnyRequest, services: Services, secret: str) -> ApiKey:
    """The key that may sign in. Raises ProblemError.

    Tries that fail are counted by address. The right key is let in however many there were: others may have the same
    address, behind a proxy or a router, and nobody guesses 256 bits.
    """
    key = await services.keys.find(secret) if 0 < len(secret) <= _MAX_SECRET else None
    if key is not None and not key.counts_from(address_of(request)):
        key = None
    if key is None or not key.allows(Scope.OBSERVE):
        services.sign_ins.take(address_of(request) or "", "failed tries to sign in from one address")
    if key is None:
        detail = "this key is not valid: it may be mistyped, revoked or expired"
        raise ProblemError(401, "invalid_api_key", detail)
    if not key.allows(Scope.OBSERVE):
        detail = "this key may not see the admin pages: that wants the scope admin, or observe for looking alone"
        raise ProblemError(403, "forbidden", detail)
    return key


async def _refused(request: AnyRequest, next_path: str, problem: ProblemError) -> Template:
    _log.warning("sign-in refused", action="admin.sign_in_refused", code=problem.code)
    answer = await page(
        request, "sign-in.html", title=_TITLE, status=problem.status_code, next=next_path, problem=problem.detail
    )
    answer.headers.update(problem.headers or {})
    return answer
