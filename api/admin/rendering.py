"""Pages out of templates, what a form's post answers, and problems in plain words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, unquote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from litestar import Request, Response
from litestar.datastructures import Cookie
from litestar.plugins.jinja import JinjaTemplateEngine
from litestar.response import Template
from litestar.template import TemplateConfig
from litestar.types import ExceptionHandlersMap

from api.admin.formatting import FILTERS
from api.admin.gate import current
from api.admin.sessions import PATH
from api.assets import asset_url
from api.problems import EXCEPTION_HANDLERS, Problem
from api.quota_problems import QUOTA_HANDLERS
from api.services import Services
from safelight import __version__

AnyRequest = Request[Any, Any, Any]

SECTIONS = (
    ("Overview", "/admin"), ("Jobs", "/admin/jobs"), ("Lanes", "/admin/lanes"), ("Workers", "/admin/workers"),
    ("Keys", "/admin/keys"), ("Budgets", "/admin/budgets"), ("Webhooks", "/admin/webhooks"),
    ("Cost", "/admin/cost"), ("Audit", "/admin/audit"),
)  # fmt: skip
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",  # with none at all browsers send forms with  Origin: null
}
_FLASH = "safelight_said"
_FLASH_S = 60
_MAX_FLASH = 1000


def template_config() -> TemplateConfig[JinjaTemplateEngine]:
    """The engine: everything is escaped, and a name that isn't there is an error."""
    loader = PackageLoader("dashboards", "web/admin/templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(FILTERS)
    environment.globals.update(asset=asset_url, sections=SECTIONS, version=__version__)
    return TemplateConfig(instance=JinjaTemplateEngine.from_environment(environment))


async def page(
    request: AnyRequest,
    template: str,
    *,
    title: str,
    status: int = 200,
    **context: Any,
) -> Template:
    """The page that ``template`` makes of ``context``, with what every page has: who looks, the form token, news."""
    frame, taken = await _frame(request)
    context = {**frame, "title": title, **context}
    return Template(
        template, context=context, status_code=status, headers=HEADERS, cookies=taken,
        media_type="text/html",
    )  # fmt: skip


def done(request: AnyRequest, to: str, said: str = "", *, kind: str = "good") -> Response[bytes]:
    """What a post answers that did what it should: off to ``to``, where ``said`` is shown once."""
    cookies = [_flash_cookie(f"{kind}:{quote(said[:_MAX_FLASH])}", _FLASH_S)] if said else []
    if is_htmx(request):
        return _empty(204, {"HX-Redirect": to}, cookies)
    return _empty(303, {"Location": to}, cookies)


def is_htmx(request: AnyRequest) -> bool:
    """True where a part of a page asks, not the browser for a page."""
    return request.headers.get("hx-request") == "true"


async def _frame(request: AnyRequest) -> tuple[dict[str, Any], tuple[Cookie, ...]]:
    """What the layout shows, and the cookies that go with it."""
    services: Services = request.app.state.services
    operator = current(request)
    said: tuple[str, str] | None = None
    cookies: tuple[Cookie, ...] = ()
    if _FLASH in request.cookies and not is_htmx(request):
        kind, _, text = request.cookies[_FLASH].partition(":")
        said, cookies = (kind if kind in ("good", "warn", "bad", "info") else "info", unquote(text)), _NO_FLASH
    token = await services.sessions.form_token(operator.session if operator else None)
    return {**_bare(request), "csrf": token, "said": said}, cookies


def _bare(request: AnyRequest) -> dict[str, Any]:
    """What the layout shows in any case."""
    operator = current(request)
    return {
        "operator": operator,
        "may_change": operator is not None and operator.may_change,
        "csrf": "",
        "said": None,
        "here": _here(request),
        "path": request.url.path,
    }


def _here(request: AnyRequest) -> str:
    """The page's own address within the site."""
    query = request.scope["query_string"].decode("latin-1")
    return request.url.path + (f"?{query}" if query else "")


def _flash_cookie(value: str, lifetime_s: int) -> Cookie:
    return Cookie(_FLASH, path=PATH, value=value, max_age=lifetime_s, httponly=True, samesite="strict")


_NO_FLASH = (_flash_cookie("", 0),)


def sign_in_path(next_path: str) -> str:
    """The page for signing in, from which one comes back."""
    return f"{PATH}/sign-in?{urlencode({'next': next_path})}"


def _shown(handler: Callable[..., Response[Problem]]) -> Callable[..., Response[Any]]:
    """The page, or the part of one, that says what the API's own ``handler`` would have said in JSON."""

    def show(request: AnyRequest, error: Exception) -> Response[Any]:
        answer = handler(request, error)
        problem = answer.content
        if problem.status == HTTPStatus.UNAUTHORIZED:
            return _to_sign_in(request)
        headers = {**HEADERS, **{name: str(value) for name, value in answer.headers.items()}}
        template = "problem-part.html" if is_htmx(request) else "problem.html"
        context = {**_bare(request), "problem": problem, "title": problem.title}
        return Template(template, context=context, status_code=problem.status, headers=headers, media_type="text/html")

    return show


def _to_sign_in(request: AnyRequest) -> Response[bytes]:
    """Off to sign in, and back to the page from there."""
    if is_htmx(request):  # the page around it asks anew, and is sent there
        return _empty(401, {"HX-Refresh": "true"})
    back = _here(request) if request.scope["method"] == "GET" else PATH
    return _empty(303, {"Location": sign_in_path(back)})


def _empty(status: int, headers: dict[str, str], cookies: Sequence[Cookie] = ()) -> Response[bytes]:
    return Response(b"", status_code=status, headers={**HEADERS, **headers}, cookies=cookies, media_type="text/html")


PROBLEM_PAGES: ExceptionHandlersMap = {
    kind: _shown(handler) for kind, handler in {**EXCEPTION_HANDLERS, **QUOTA_HANDLERS}.items()
}
"""The API's own answers to errors, as pages."""
