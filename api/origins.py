"""What other web sites may not do through a browser of someone who can reach this API.

While the API is open, a browser is all it takes to use it. So no other site may have a browser write (cross-site
request forgery), nor pass for this one by a name of its own that leads here (DNS rebinding).
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from api.keyring import is_loopback
from api.problems import ProblemError
from api.services import Services

_Connection = ASGIConnection[Any, Any, Any, Any]
_JSON = re.compile(r"application/(?:[a-z0-9.-]+\+)?json")  # RFC 6839, 3.1
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})  # RFC 9110, 9.2.1


async def same_site(connection: _Connection, _handler: BaseRouteHandler) -> None:
    """Guard: 403 to a write that a page of another origin makes, and to a name that isn't this machine's.

    The second only where the API is on loopback and open: behind a proxy that keeps the name, keys do the guarding.
    """
    if connection.scope.get("method") not in _SAFE and _is_foreign(connection):
        raise ProblemError(403, "cross_origin", "a page of another origin can't do this")
    services: Services = connection.app.state.services
    if services.keys.loopback and not await services.keys.wanted() and not names_this_machine(connection):
        detail = "without an API key this server answers to 127.0.0.1 and localhost alone, not to other names"
        raise ProblemError(403, "foreign_host", detail)


async def wants_json(connection: _Connection, _handler: BaseRouteHandler) -> None:
    """Guard: 415 to a body not declared as JSON; browsers ask leave before they send that kind elsewhere."""
    headers = connection.headers
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if not _JSON.fullmatch(media_type):
        raise ProblemError(415, "unsupported_media_type", "send the body as  Content-Type: application/json")


def names_this_machine(connection: _Connection) -> bool:
    """True when the request's ``Host`` is a loopback address or localhost, or was left out (no browser does that)."""
    host = connection.headers.get("host", "")
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return not host or is_loopback(name) or name.endswith(".localhost")  # RFC 6761, 6.3


def _is_foreign(connection: _Connection) -> bool:
    """By Fetch Metadata, and else by ``Origin`` against ``Host``; who sends neither is no browser."""
    if connection.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return True
    origin, host = connection.headers.get("origin"), connection.headers.get("host", "")
    return origin is not None and origin.partition("://")[2].lower() != host.lower()
