"""The routes of the admin pages."""

from __future__ import annotations

from litestar import Response, Router, get

from api.admin import lanes, live, overview, signing_in
from api.admin.cost import COST_ROUTES
from api.admin.deliveries import DELIVERY_ROUTES
from api.admin.gate import signed_in
from api.admin.rendering import PROBLEM_PAGES
from api.admin.sessions import PATH
from api.admin.webhooks import WEBHOOK_ROUTES
from api.problems import ProblemError


def admin_routes() -> Router:
    """All of them, behind the sign-in; a router belongs to one application alone."""
    return Router(
        PATH,
        guards=[signed_in],
        exception_handlers=PROBLEM_PAGES,
        route_handlers=[
            signing_in.sign_in_page, signing_in.sign_in, signing_in.sign_out, live.watch,
            overview.show,
            lanes.show, lanes.pause, lanes.resume,
            *COST_ROUTES, *WEBHOOK_ROUTES, *DELIVERY_ROUTES,
            missing,
        ],
        include_in_schema=False,
    )  # fmt: skip


@get("/{rest:path}")
async def missing() -> Response[None]:
    """A page that isn't there."""
    raise ProblemError(404, "not_found", "there is no such page")
