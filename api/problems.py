"""Every error's one shape: RFC 9457 ``application/problem+json``, with an OpenAI-shaped ``error`` beside."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import psycopg
from litestar import Request, Response
from litestar.exceptions import HTTPException, InternalServerException, ValidationException
from litestar.types import ExceptionHandlersMap
from msgspec import Struct, ValidationError

from api.wording import NAMES, VALUES, plainly, unknown
from jobstore.errors import (
    IllegalTransitionError,
    JobNotFoundError,
    ReplayGoneError,
    ReplayMismatchError,
    StoreBusyError,
)
from safelight.telemetry import get_logger

_log = get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
IDEMPOTENCY_KEY = "Idempotency-Key"
_CLIENT_LEFT = 499  # for logs and metrics, as proxies have it: nobody is there to be told
_BROKEN_OFF = "client disconnected prematurely"  # Litestar's words where the body ends before it should
_CODES = {
    400: "invalid_request",
    401: "invalid_api_key",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "body_too_large",
    415: "unsupported_media_type",
    503: "unavailable",
}
_AT = " - at "
_FIELD = re.compile(r" - at (`key` in )?`\$\.([^`.\[]+)(\[)?[^`]*`$")
_MAX_PLACE = 500  # characters of a message's end: what comes before may be a client's words, as long as a body
_UNKNOWN_FIELD = re.compile(r"unknown field `([^`]*)`")
_MISSING_FIELD = re.compile(r"missing required field `([^`]*)`")


class OpenAIError(Struct, frozen=True, kw_only=True):
    """The error as OpenAI's clients read it; all four members are always there."""

    message: str
    type: str
    param: str | None
    code: str


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong. ``field`` names the part of the request that is to blame, where there is one."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    request_id: str
    error: OpenAIError
    field: str | None = None


class ProblemError(HTTPException):
    """Raise it to answer with a problem."""

    def __init__(
        self, status: int, code: str, detail: str, *, field: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        """``code`` is stable and for programs, ``detail`` for people."""
        super().__init__(detail=detail, status_code=status, headers=headers)
        self.code = code
        self.field = field


def invalid(field: str, detail: str) -> ProblemError:
    """A 400 that names ``field``."""
    return ProblemError(400, "invalid_request", detail, field=field)


def not_found() -> ProblemError:
    """The one answer for jobs that don't exist, and for those of another key."""
    return ProblemError(404, "job_not_found", "no job with that id")


def model_not_found(name: str, offered: Iterable[str], kind: str = "there are") -> ProblemError:
    """The one answer for a model that isn't there; ``offered`` are those that the client may use."""
    detail = f"there is no model {name[:200]!r}; {kind}: {', '.join(offered) or 'none'}"
    return ProblemError(404, "model_not_found", detail, field="model")


def from_decoding(error: Exception, known: Iterable[str]) -> ProblemError:
    """A 400 out of msgspec's message, with the field's name where the message tells it; ``known`` are all fields."""
    text = str(error)
    stranger, missing = _UNKNOWN_FIELD.search(text), _MISSING_FIELD.search(text)
    found = _FIELD.match(text, at) if (at := text.rfind(_AT)) >= len(text) - _MAX_PLACE else None
    if found is not None and (stranger or missing):  # inside of a field
        return invalid(found[2], plainly(found[2], text[: found.start()]))
    if stranger:
        return invalid(stranger[1], unknown(stranger[1], known))
    if missing:
        return invalid(missing[1], f"{missing[1]} is missing")
    if found:
        inner = NAMES if found[1] else VALUES if found[3] else found[2]
        part = inner if found[2] == "dimensions" else found[2]
        return invalid(found[2], plainly(part, text[: found.start()]))
    if isinstance(error, ValidationError):
        return ProblemError(400, "invalid_json", "the body must be a JSON object")
    return ProblemError(400, "invalid_json", f"the body is not JSON that can be read: {text}")


_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def kind_of(status: int) -> str:
    """What OpenAI calls errors of a status."""
    return "server_error" if status >= 500 else _KINDS.get(status, "invalid_request_error")


def respond(request: Request[Any, Any, Any], error: ProblemError) -> Response[Problem]:
    """The answer that a problem is."""
    problem = Problem(
        type=f"urn:safelight:problem:{error.code}",
        title=HTTPStatus(error.status_code).phrase,
        status=error.status_code,
        detail=error.detail,
        instance=request.scope["path"][:500],
        request_id=str(request.scope["state"].get("request_id", "")),
        field=error.field,
        error=OpenAIError(message=error.detail, type=kind_of(error.status_code), param=error.field, code=error.code),
    )
    return Response(problem, status_code=error.status_code, media_type=MEDIA_TYPE, headers=error.headers)


def _http(request: Request[Any, Any, Any], error: HTTPException) -> Response[Problem] | Response[None]:
    if isinstance(error, ProblemError):
        return respond(request, error)
    if isinstance(error, InternalServerException) and error.detail == _BROKEN_OFF:
        _log.info("client left before its body was sent", action="api.client_left")
        return Response(None, status_code=_CLIENT_LEFT)
    if error.status_code >= 500:
        return _unexpected(request, error)
    if isinstance(error, ValidationException):
        return respond(request, _from_validation(request, error))
    detail = {
        404: "nothing is served under this path",
        405: f"{request.scope['method'][:20]} is not possible here",
        413: "the body is larger than this server takes",
    }.get(error.status_code, error.detail)
    code = _CODES.get(error.status_code, "invalid_request")
    return respond(request, ProblemError(error.status_code, code, detail, headers=error.headers))


def _from_validation(request: Request[Any, Any, Any], error: ValidationException) -> ProblemError:
    first = error.extra[0] if isinstance(error.extra, list) and error.extra else {}
    name = str(first.get("key", ""))
    handler = request.route_handler
    needs = (need.parsed_fn_signature for need in handler.resolve_dependencies().values())  # they have parameters, too
    known = (signature.parameters.get(name) for signature in (handler.parsed_fn_signature, *needs))
    parameter = next((parameter for parameter in known if parameter is not None), None)
    if name == "data":
        return ProblemError(400, "invalid_json", "the body is missing: it must be a JSON object")
    kwarg = parameter.kwarg_definition if parameter else None
    field = getattr(kwarg, "name", None) or name
    if not field:
        return ProblemError(400, "invalid_request", "a parameter is missing or can't be read")
    return invalid(field, plainly(field, str(first.get("message", "is not valid"))))


def _unexpected(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    if isinstance(error, (psycopg.OperationalError, sqlite3.OperationalError, ConnectionError, TimeoutError)):
        _log.error("a part can't be reached", action="api.unavailable", error=type(error).__name__)
        detail = "the store or the outputs can't be reached at the moment"
        return respond(request, ProblemError(503, "unavailable", detail, headers={"Retry-After": "5"}))
    _log.error("request failed", action="api.failed", exc_info=error)
    detail = "something went wrong on our side; the request id finds it in the log"
    return respond(request, ProblemError(500, "internal_error", detail))


def _missing(request: Request[Any, Any, Any], _error: JobNotFoundError) -> Response[Problem]:
    return respond(request, not_found())


def _conflict(request: Request[Any, Any, Any], error: IllegalTransitionError) -> Response[Problem]:
    return respond(request, ProblemError(409, "illegal_transition", str(error)))


def _reused(request: Request[Any, Any, Any], _error: ReplayMismatchError) -> Response[Problem]:
    detail = f"this {IDEMPOTENCY_KEY} was used for another request; a new request wants a new key"
    return respond(request, ProblemError(422, "idempotency_key_reused", detail, field=IDEMPOTENCY_KEY))


def _expired(request: Request[Any, Any, Any], _error: ReplayGoneError) -> Response[Problem]:
    detail = (
        f"this {IDEMPOTENCY_KEY} made a job that has been deleted by age, so its answer can't be given again; "
        "to render the request anew, send it with a new key"
    )
    headers = {"x-should-retry": "false"}  # SDKs try a 409 again
    return respond(
        request, ProblemError(409, "idempotency_key_expired", detail, field=IDEMPOTENCY_KEY, headers=headers)
    )


def _busy(request: Request[Any, Any, Any], error: StoreBusyError) -> Response[Problem]:
    return respond(request, ProblemError(503, "unavailable", str(error), headers={"Retry-After": "5"}))


EXCEPTION_HANDLERS: ExceptionHandlersMap = {
    HTTPException: _http,
    JobNotFoundError: _missing,
    IllegalTransitionError: _conflict,
    ReplayMismatchError: _reused,
    ReplayGoneError: _expired,
    StoreBusyError: _busy,
    Exception: _unexpected,
}
