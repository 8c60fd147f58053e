"""The routes of the admin pages."""

from __future__ import annotations

from litestar import Response, Router, get

from api.admin import job_pictures, jobs, lanes, live, many_jobs, overview, signing_in
from api.admin.audit import AUDIT_ROUTES
from api.admin.budgets import BUDGET_ROUTES
from api.admin.cost import COST_ROUTES
from api.admin.deliveries import DELIVERY_ROUTES
from api.admin.forms import MAX_BYTES
from api.admin.gate import signed_in
from api.admin.job import JOB_ROUTES
from api.admin.keys import KEY_ROUTES
from api.admin.rendering import PROBLEM_PAGES
from api.admin.sessions import PATH
from api.admin.webhooks import WEBHOOK_ROUTES
from api.admin.workers import WORKER_ROUTES
from api.problems import ProblemError


def admin_routes(body_limit_bytes: int) -> Router:
    """All of them, behind the sign-in; a router belongs to one application alone."""
    return Router(
        PATH,
        guards=[signed_in],
        request_max_body_size=min(MAX_BYTES, body_limit_bytes),
        exception_handlers=PROBLEM_PAGES,
        route_handlers=[
            signing_in.sign_in_page, signing_in.sign_in, signing_in.sign_out, live.watch,
            overview.show,
            lanes.show, lanes.pause, lanes.resume,
            jobs.show, *many_jobs.MANY_ROUTES, *JOB_ROUTES, job_pictures.whole, job_pictures.small,
            *WORKER_ROUTES,
            *KEY_ROUTES, *BUDGET_ROUTES, *AUDIT_ROUTES,
            *COST_ROUTES, *WEBHOOK_ROUTES, *DELIVERY_ROUTES,
            missing,
        ],
        include_in_schema=False,
    )  # fmt: skip


@get("/{rest:path}")
async def missing() -> Response[None]:
    """A page that isn't there."""
    raise ProblemError(404, "not_found", "there is no such page")
