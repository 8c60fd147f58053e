"""A problem of REST as gRPC tells it: a status code, the detail, and the rest in the trailing metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from grpc import StatusCode

from api.grpc.requests import Answer
from api.problems import ProblemError

_CODES: Mapping[int, StatusCode] = {
    400: StatusCode.INVALID_ARGUMENT,
    401: StatusCode.UNAUTHENTICATED,
    402: StatusCode.RESOURCE_EXHAUSTED,
    403: StatusCode.PERMISSION_DENIED,
    404: StatusCode.NOT_FOUND,
    408: StatusCode.DEADLINE_EXCEEDED,
    409: StatusCode.FAILED_PRECONDITION,  # not ABORTED, which asks to be tried again
    413: StatusCode.RESOURCE_EXHAUSTED,  # as gRPC itself has it for messages that are too large
    422: StatusCode.FAILED_PRECONDITION,
    429: StatusCode.RESOURCE_EXHAUSTED,
    503: StatusCode.UNAVAILABLE,
    504: StatusCode.DEADLINE_EXCEEDED,
}
_TOLD = (
    "x-request-id", "x-trace-id", "idempotency-replayed", "ratelimit-policy", "ratelimit", "retry-after",
    "x-should-retry",
)  # fmt: skip
Metadata = tuple[tuple[str, str], ...]


class Refusal(NamedTuple):
    """How a call ends that got no answer."""

    code: StatusCode
    detail: str
    metadata: Metadata


def told(headers: Mapping[str, str]) -> Metadata:
    """The headers of an answer that mean something to a client, as trailing metadata."""
    return tuple((name, _ascii(headers[name])) for name in _TOLD if name in headers)


def refusal_of(answer: Answer) -> Refusal:
    """The refusal that an answer with an error is."""
    try:
        problem = msgspec.json.decode(answer.body, type=dict[str, Any])
    except msgspec.MsgspecError:  # nothing of ours
        problem = {}
    code = str(problem.get("type", ""))
    return _refusal(answer.status, code, str(problem.get("detail", "")), problem.get("field"), answer.headers)


def refusal_for(error: ProblemError) -> Refusal:
    """The same of a problem that was found before there was a request."""
    return _refusal(
        error.status_code, f"urn:safelight:problem:{error.code}", error.detail, error.field, error.headers or {}
    )


def _refusal(status: int, kind: str, detail: str, field: str | None, headers: Mapping[str, str]) -> Refusal:
    lower = {name.lower(): value for name, value in headers.items()}
    about = [("problem-status", str(status)), ("problem-type", kind), ("problem-field", field or "")]
    metadata = (*((name, _ascii(value)) for name, value in about if value), *told(lower), *_pushback(lower))
    return Refusal(_CODES.get(status, StatusCode.INTERNAL), detail, metadata)


def _pushback(headers: Mapping[str, str]) -> Metadata:
    """What gRPC's own retries obey (gRFC A6): when to come again, in milliseconds; -1 for never."""
    if headers.get("x-should-retry") == "false":
        return (("grpc-retry-pushback-ms", "-1"),)
    wait = headers.get("retry-after", "")
    return (("grpc-retry-pushback-ms", str(int(wait) * 1000)),) if wait.isdigit() else ()


def _ascii(value: str) -> str:
    return "".join(letter if " " <= letter <= "~" else "?" for letter in value)
