"""What pages load: style sheets, scripts and icons of ours and of the packages that carry them.

Each has its content's digest in its address, so that browsers keep it for good and see every change at once.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any

from litestar import Request, Response, get
from litestar.params import FromPath

from api.problems import ProblemError

PATH = "/assets"
_TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_PACKAGED = {
    "htmx.js": ("js_lib_htmx", "static/htmx/htmx.min.js"),
    "chart.js": ("admincharts", "static/admincharts/chart.min.js"),
}
"""Third parties' files, which come with packages from PyPI: by name, the package and the place in it."""
_OWN = ("dashboards", "web/static")
_FOREVER = "public, max-age=31536000, immutable"
_MIN_GZIP = 500


@dataclass(frozen=True)
class Asset:
    """A file that pages load, as it is sent."""

    name: str
    content: bytes

    @property
    def media_type(self) -> str:
        """By the name's end."""
        return f"{_TYPES[self.name.rsplit('.', 1)[-1]]}; charset=utf-8"

    @cached_property
    def digest(self) -> str:
        """What changes with the content."""
        return hashlib.sha256(self.content).hexdigest()[:16]

    @cached_property
    def zipped(self) -> bytes:
        """The content under gzip, made once."""
        return gzip.compress(self.content, 9, mtime=0)


@lru_cache(maxsize=64)  # more than there are names: others raise
def find_asset(name: str) -> Asset:
    """The asset of that name. Raises ProblemError (404) where there is none."""
    package, place = _PACKAGED.get(name, (_OWN[0], f"{_OWN[1]}/{name}"))
    if name not in _PACKAGED and name not in _own_names():
        raise ProblemError(404, "not_found", "nothing is served under this path")
    return Asset(name, files(package).joinpath(place).read_bytes())


def asset_url(name: str) -> str:
    """Where pages load the asset from."""
    return f"{PATH}/{find_asset(name).digest}/{name}"


@get(f"{PATH}/{{digest:str}}/{{name:str}}", include_in_schema=False)
async def read_asset(digest: FromPath[str], name: FromPath[str], request: Request[Any, Any, Any]) -> Response[bytes]:
    """The asset as it is now; kept for good under its own digest alone.

    Another digest is another version's: during an upgrade, of a page that another server sent.
    """
    asset = find_asset(name)
    return answer(asset, request, kept=digest == asset.digest)


def answer(asset: Asset, request: Request[Any, Any, Any], *, kept: bool) -> Response[bytes]:
    """The asset as an answer, which browsers keep for good where its address says which version it is."""
    headers = {"Cache-Control": _FOREVER if kept else "no-cache", "Vary": "Accept-Encoding"}
    content = asset.content
    if len(content) >= _MIN_GZIP and "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        content = asset.zipped
    return Response(content, media_type=asset.media_type, headers=headers)


@lru_cache(maxsize=1)
def _own_names() -> frozenset[str]:
    folder = files(_OWN[0]).joinpath(_OWN[1])
    return frozenset(file.name for file in folder.iterdir() if file.name.rsplit(".", 1)[-1] in _TYPES)
