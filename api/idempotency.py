"""What makes a repeated submit answer with the job of the first one: its ``Idempotency-Key``, or an SDK's retry count.

The header is that of draft-ietf-httpapi-idempotency-key-header-07. docs/idempotency.md tells the rules.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from litestar.datastructures import Headers
from litestar.params import HeaderParameter

from api.problems import IDEMPOTENCY_KEY, invalid
from api.schemas import SubmitRequest
from jobstore.job import Replay
from safelight.config import JobSettings

REPLAYED = {"Idempotency-Replayed": "true"}

IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name=IDEMPOTENCY_KEY,
        description="1 to 255 visible ASCII characters, in quotes or bare: a repeated submit gets the first one's job.",
        schema_extra={"examples": ['"8e03978e-40d5-43e8-bc93-6894a57f9324"']},
    ),
]

_RETRY_COUNT = "x-stainless-retry-count"
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')  # RFC 8941, 3.3.3
_VISIBLE = re.compile(r"[!-~]{1,255}")
_COUNT = re.compile(r"[0-9]{1,9}", re.ASCII)
_RULE = f"{IDEMPOTENCY_KEY} must be 1 to 255 visible ASCII characters, in double quotes or bare, and sent once"


def replay_of(
    submit: SubmitRequest, dimensions: Mapping[str, str], headers: Headers, settings: JobSettings
) -> Replay | None:
    """What repeats of this submit are known by; None where neither header is sent. Raises ProblemError."""
    keys = headers.getall(IDEMPOTENCY_KEY, [])
    count = headers.get(_RETRY_COUNT, "")
    if keys:
        digest = body_digest(submit, dimensions)
        return Replay(key=f"key:{read_key(keys)}", body_sha256=digest, keep_s=settings.idempotency_s)
    if _COUNT.fullmatch(count):
        digest = body_digest(submit, dimensions)
        return Replay(
            key=f"sdk:{digest}", body_sha256=digest, keep_s=settings.sdk_retry_window_s, renew=int(count) == 0
        )
    return None


def read_key(values: Sequence[str]) -> str:
    """The key of the header's values, of which there must be one. Raises ProblemError."""
    text = values[0].strip(" \t") if len(values) == 1 else ""
    if text.startswith('"'):
        quoted = _QUOTED.fullmatch(text)
        text = re.sub(r'\\(["\\])', r"\1", quoted[1]) if quoted else ""
    if not _VISIBLE.fullmatch(text):
        raise invalid(IDEMPOTENCY_KEY, _RULE)
    return text


def body_digest(submit: SubmitRequest, dimensions: Mapping[str, str]) -> str:
    """SHA-256 over what the client asked for: the order of fields and white space don't count.

    Nothing of ours is in it: neither the settings' defaults nor a seed that is drawn. So a retry is known for the same
    request whatever changed here in between.
    """
    fields: dict[str, Any] = msgspec.to_builtins(submit)
    for name in submit.later:
        if fields[name] is None:
            del fields[name]
    fields["dimensions"] = dict(dimensions)
    return hashlib.sha256(msgspec.json.encode(fields, order="sorted")).hexdigest()
