"""The documentation for people, served without anything from elsewhere."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from litestar import MediaType, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath, SkipValidation

from api.auth import needs_admin
from api.openapi import ApiDocument
from api.problems import ProblemError

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_ASSETS = frozenset({"docs.js", "style.css", "icon.svg"})


def _read(name: str) -> bytes:
    return files("dashboards").joinpath("web", name).read_bytes()


def _page(content: bytes, media_type: str) -> Response[bytes]:
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
    return Response(content, media_type=f"{media_type}; charset=utf-8", headers=headers)


@get("/static/{name:str}", include_in_schema=False)
async def asset(name: FromPath[str]) -> Response[bytes]:
    """What the pages load."""
    if name not in _ASSETS:
        raise ProblemError(404, "not_found", "nothing is served under this path")
    return _page(_read(name), _TYPES[name.rsplit(".", 1)[-1]])


@get("/docs", include_in_schema=False, guards=[needs_admin])
async def documentation() -> Response[bytes]:
    """The API's documentation, drawn from ``/openapi.json``."""
    return _page(_read("docs.html"), "text/html")


@get("/openapi.json", include_in_schema=False, guards=[needs_admin])
async def openapi_document(document: NamedDependency[SkipValidation[ApiDocument]]) -> Response[dict[str, Any]]:
    """The OpenAPI document."""
    return Response(await document.made(), media_type=MediaType.JSON)
