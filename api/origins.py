"""What other web sites may not do through a browser of someone who can reach this API.

While the API is open, a browser is all it takes to use it. So no other site may have a browser write (cross-site
request forgery), nor pass for this one by a name of its own that leads here (DNS rebinding).
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from litestar.datastructures import Headers

from api.keyring import is_loopback
from api.problems import ProblemError

_JSON = re.compile(r"application/(?:[a-z0-9.-]+\+)?json")  # RFC 6839, 3.1
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})  # RFC 9110, 9.2.1


def check_origin(method: str, headers: Headers, *, guarded: bool) -> None:
    """Raise a 403 to a write that a page of another origin makes, and to a name that isn't this machine's.

    The second only where nothing else guards the API (on loopback, and open): behind a proxy that keeps the
    name, keys do.
    """
    if method not in _SAFE and _is_foreign(headers):
        raise ProblemError(403, "cross_origin", "a page of another origin can't do this")
    if not guarded and not names_this_machine(headers):
        detail = "without an API key this server answers to 127.0.0.1 and localhost alone, not to other names"
        raise ProblemError(403, "foreign_host", detail)


def check_json(headers: Headers) -> None:
    """Raise a 415 to a body not declared as JSON; browsers ask leave before they send that kind elsewhere."""
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not _JSON.fullmatch(media_type):
        raise ProblemError(415, "unsupported_media_type", "send the body as  Content-Type: application/json")


def names_this_machine(headers: Headers) -> bool:
    """True when the request's ``Host`` is a loopback address or localhost, or was left out (no browser does that)."""
    host = headers.get("host", "")
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return not host or is_loopback(name) or name.endswith(".localhost")  # RFC 6761, 6.3


def _is_foreign(headers: Headers) -> bool:
    """By Fetch Metadata, and else by ``Origin`` against ``Host``; who sends neither is no browser."""
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return True
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower()
