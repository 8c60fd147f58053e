"""The audit log, for admins and observers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from litestar import Request, get
from litestar.params import QueryParameter

from api.auth import OBSERVE
from api.key_schemas import AuditList, Moment
from api.key_views import audit_view
from api.openapi import ServicesDependency, answers
from api.problems import invalid
from api.services import Services
from api.wording import plainly, unknown
from jobstore.audit import AuditFilter

_PARAMETERS = ("action", "target", "actor", "after", "before", "limit", "cursor")


@get("/audit", opt=OBSERVE, summary="Read the audit log", responses=answers(400))
async def list_audit(
    request: Request[Any, Any, Any],
    services: ServicesDependency,
    action: Annotated[
        str | None, QueryParameter(pattern=r"^[a-z][a-z0-9_.]{0,63}\Z", description="Only this, such as `key.revoked`.")
    ] = None,
    target: Annotated[
        str | None, QueryParameter(pattern=r"^[!-~]{1,200}\Z", description="Only what was done to this: an id, a lane.")
    ] = None,
    actor: Annotated[
        str | None, QueryParameter(max_length=100, description="Only what somebody did whose name holds this text.")
    ] = None,
    after: Annotated[str | None, QueryParameter(description="Only what was done from this time on.")] = None,
    before: Annotated[str | None, QueryParameter(description="Only what was done before this time.")] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=200, description="How many at most.")] = 50,
    cursor: Annotated[
        str | None, QueryParameter(pattern=r"^[!-~]{1,500}\Z", description="`next_cursor` of the page before.")
    ] = None,
) -> AuditList:
    """Who changed keys, lanes and the like, newest first. No secret is ever in it."""
    for name in request.query_params:
        if name not in _PARAMETERS:
            raise invalid(name[:100], unknown(name, _PARAMETERS, "query parameter"))
    where = AuditFilter(
        action=action,
        target=target,
        actor=actor or None,
        after=moment("after", after),
        before=moment("before", before),
        limit=limit,
        cursor=cursor,
    )
    return await audit_list(services, where)


async def audit_list(services: Services, where: AuditFilter) -> AuditList:
    """A page of the log. Raises ProblemError on a cursor that no page gave."""
    try:
        page = await services.store.list_audit(where)
    except ValueError:
        raise invalid("cursor", plainly("cursor", "")) from None
    return AuditList(data=tuple(audit_view(entry) for entry in page.entries), next_cursor=page.next_cursor)


def moment(name: str, text: str | None) -> datetime | None:
    """The time that a parameter names, in UTC. Raises ProblemError."""
    try:
        return None if text is None else msgspec.convert(text, Moment).astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):  # in UTC it may be before the year 1, or after 9999
        raise invalid(name, f"{name} must be a time like 2026-01-31T12:00:00Z") from None
