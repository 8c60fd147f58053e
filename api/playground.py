"""The playground: one page, and the modules that it is made of."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.resources import files
from string import Template
from typing import Any

from litestar import Request, Response, get
from litestar.params import FromPath

from api.assets import Asset, answer, asset_url, find_asset
from api.pages import POLICY
from api.problems import ProblemError

_PATH = "/playground"
_STYLE = "playground.css"


@get("/", include_in_schema=False)
async def playground() -> Response[str]:
    """A prompt box, a card for each job, and the pictures."""
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
    return Response(_page(), media_type="text/html; charset=utf-8", headers=headers)


@get(f"{_PATH}/{{digest:str}}/{{name:str}}", include_in_schema=False)
async def playground_asset(
    digest: FromPath[str], name: FromPath[str], request: Request[Any, Any, Any]
) -> Response[bytes]:
    """One of the page's modules, or its style."""
    found = _assets().get(name)
    if found is None:
        raise ProblemError(404, "not_found", "nothing is served under this path")
    return answer(found, request, kept=digest == _digest())


@lru_cache(maxsize=1)
def _assets() -> dict[str, Asset]:
    folder = files("dashboards").joinpath("web", "playground")
    modules = sorted((file.name, file) for file in folder.iterdir() if file.name.endswith(".js"))
    # All style in one file: the first paint waits for it, and for nothing else.
    style = find_asset("base.css").content + folder.joinpath(_STYLE).read_bytes()
    return {_STYLE: Asset(_STYLE, style), **{name: Asset(name, file.read_bytes()) for name, file in modules}}


@lru_cache(maxsize=1)
def _digest() -> str:
    """That of all modules together: they name each other by plain relative addresses."""
    return hashlib.sha256("".join(asset.digest for asset in _assets().values()).encode()).hexdigest()[:16]


@lru_cache(maxsize=1)
def _page() -> str:
    here = f"{_PATH}/{_digest()}"
    modules = (name for name in _assets() if name.endswith(".js") and name != "main.js")
    preloads = "\n".join(f'<link rel="modulepreload" href="{here}/{name}">' for name in modules)
    page = files("dashboards").joinpath("web", "index.html").read_text("utf-8")
    return Template(page).substitute(icon=asset_url("icon.svg"), playground=here, preloads=preloads)


PLAYGROUND_ROUTES = (playground, playground_asset)
