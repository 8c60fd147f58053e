"""What the fields of a form hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from litestar import Request
from litestar.exceptions import HTTPException
from msgspec import Struct, ValidationError, convert

from api.auth import Connection
from api.problems import ProblemError, from_decoding, invalid

T = TypeVar("T", bound=Struct)

_TYPE = "application/x-www-form-urlencoded"
_MAX_FIELDS = 200
_MAX_PAIRS = 1_000  # a field may be there several times
MAX_BYTES = 64_000
"""No form is larger: strangers send some, too, and taking a large one apart holds up everybody else."""


async def posted(connection: Connection) -> dict[str, str]:
    """The fields of a form, blanks around them taken off; the last of a name counts. Raises ProblemError."""
    request = cast("Request[Any, Any, Any]", connection)
    media_type = request.headers.get("content-type", _TYPE).partition(";")[0].strip().lower()
    if media_type != _TYPE:
        raise ProblemError(415, "unsupported_media_type", f"send the form as {_TYPE}")
    if (await request.body()).count(b"&") >= _MAX_PAIRS:
        raise ProblemError(400, "invalid_request", f"a form has at most {_MAX_FIELDS} fields")
    try:
        form = await request.form()
    except HTTPException:
        raise
    except (ValueError, UnicodeDecodeError):
        raise ProblemError(400, "invalid_request", "the form can't be read") from None
    fields = {name: value.strip() for name, value in form.multi_items() if isinstance(value, str)}
    if len(fields) > _MAX_FIELDS:
        raise ProblemError(400, "invalid_request", f"a form has at most {_MAX_FIELDS} fields")
    for name, value in fields.items():
        if "\0" in value:
            raise invalid(name[:100], f"{name[:100]} holds the character U+0000")
    return fields


async def values(connection: Connection, name: str) -> tuple[str, ...]:
    """All values of a field that may be there several times, such as ticked boxes."""
    request = cast("Request[Any, Any, Any]", connection)
    return tuple(value for value in (await request.form()).getall(name, []) if isinstance(value, str))


def text(fields: Mapping[str, str], name: str, *, most: int = 500, label: str | None = None) -> str:
    """A field that must not be empty. Raises ProblemError naming it."""
    value = fields.get(name, "")
    if not value:
        raise invalid(name, f"{label or name} is missing")
    if len(value) > most:
        raise invalid(name, f"{label or name} has {len(value)} characters; at most {most} are taken")
    return value


def optional(fields: Mapping[str, str], name: str, *, most: int = 500, label: str | None = None) -> str | None:
    """A field that may be left empty: None then."""
    return text(fields, name, most=most, label=label) if fields.get(name) else None


def struct_of(fields: Mapping[str, Any], kind: type[T]) -> T:
    """The fields as a struct of the REST API's own, so that the same bounds hold. Raises ProblemError.

    Leave out what an empty field doesn't mean to set.
    """
    try:
        return convert(dict(fields), kind, strict=False)
    except ValidationError as error:
        raise from_decoding(error, kind.__struct_fields__) from None
