"""Takes the pictures out of an edit's body: a form with files, or JSON with data URLs.

Nothing is fetched from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from litestar import Request
from litestar.datastructures import UploadFile
from litestar.exceptions import ClientException

from api.inputs import picture_file
from api.openai.requests import parse_json
from api.problems import ProblemError, invalid

_JSON = re.compile(r"application/(?:[a-z0-9.-]+\+)?json")
_PART = re.compile(r"([a-z_]{1,64})\[([^\[\]]{0,64})\]", re.ASCII)
_MOST_PARTS = 200
_MOST_IMAGES = 16  # as many as OpenAI's endpoint takes


class Upload(NamedTuple):
    """An edit's body. ``field`` is what the pictures were sent as; ``strict`` says that numbers came as numbers."""

    members: dict[str, Any]
    images: tuple[bytes, ...]
    mask: bytes | None
    strict: bool
    field: str = "image"


async def read_upload(request: Request[Any, Any, Any]) -> Upload:
    """The body's members and pictures. Raises ProblemError naming the field."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return await _from_form(request)
    if _JSON.fullmatch(kind):
        return _from_json(parse_json(b"".join([part async for part in request.stream()])))
    raise ProblemError(415, "unsupported_media_type", "send a form (multipart/form-data) or JSON")


async def _from_form(request: Request[Any, Any, Any]) -> Upload:
    try:
        form = await request.form()
    except (ClientException, UnicodeError, ValueError, LookupError) as error:
        if isinstance(error, ClientException) and error.status_code != 400:
            raise
        raise ProblemError(400, "invalid_form", "the body is not a form that can be read") from error
    try:
        parts = list(form.multi_items())
        if len(parts) > _MOST_PARTS:
            raise ProblemError(400, "invalid_form", f"a form has at most {_MOST_PARTS} parts")
        _no_markup(dict(parts))
        images = [await _file("image", value) for name, value in parts if name in ("image", "image[]")]
        masks = [await _file("mask", value) for name, value in parts if name == "mask"]
    finally:
        await form.close()
    rest = [(name, value) for name, value in parts if name not in ("image", "image[]", "mask")]
    return Upload(_members(rest), tuple(images), _only(masks), strict=False)


async def _file(name: str, value: object) -> bytes:
    if isinstance(value, UploadFile):
        return await value.read()
    return picture_file(name, value)


def _members(parts: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Fields by name; ``dimensions[team]`` is a member of an object, ``adapters[]`` one of a list."""
    members: dict[str, Any] = {}
    for name, value in parts:
        if isinstance(value, UploadFile):
            continue
        inner = _PART.fullmatch(name)
        if not inner:
            members[name] = value
        elif inner[2]:
            known = members.setdefault(inner[1], {})
            if isinstance(known, dict):
                known[inner[2]] = value
        else:
            known = members.setdefault(inner[1], [])
            if isinstance(known, list):
                known.append(value)
    return members


def _from_json(members: dict[str, Any]) -> Upload:
    _no_markup(members)
    field = "image" if members.get("images") is None else "images"
    given = members.pop(field, None)
    listed = given if isinstance(given, list) else [] if given is None else [given]
    if len(listed) > _MOST_IMAGES:
        raise invalid(field, f"{field} has more than {_MOST_IMAGES} entries")
    mask = members.pop("mask", None)
    return Upload(
        members,
        tuple(picture_file(field, one) for one in listed),
        None if mask is None else picture_file("mask", mask),
        strict=True,
        field=field,
    )


def _no_markup(members: Mapping[str, Any]) -> None:
    """OpenAI's drawing over the picture would change what comes of it: it isn't ignored, as other fields are."""
    if "markup" in members:
        raise invalid("markup", "markup is not taken here: no model draws after it; mask says what is to change")


def _only(masks: list[bytes]) -> bytes | None:
    if len(masks) > 1:
        raise invalid("mask", "mask must be one picture")
    return masks[0] if masks else None
