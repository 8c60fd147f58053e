"""Who may look at the admin pages, and who may change something there."""

from __future__ import annotations

from litestar.handlers import BaseRouteHandler
from msgspec import Struct
from structlog.contextvars import bind_contextvars

from api.admin.forms import posted
from api.admin.sessions import COOKIE, Session
from api.auth import Connection, address_of
from api.origins import check_origin
from api.problems import ProblemError
from api.query_text import check_query
from api.services import Services
from jobstore.keys import ApiKey

TOKEN = "csrf"  # noqa: S105  the field's name
TOKEN_HEADER = "x-csrf-token"  # noqa: S105
PUBLIC = {"public": True}
"""For the pages that open before anyone is signed in."""
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Operator(Struct, frozen=True, kw_only=True):
    """Who looks: by a session, or nobody in particular while the server wants no key."""

    key: ApiKey | None = None
    session: Session | None = None

    @property
    def may_change(self) -> bool:
        """False for who may only look."""
        return self.key is None or self.key.admin


async def signed_in(connection: Connection, handler: BaseRouteHandler) -> None:
    """Guard of all admin pages: 401 to who isn't signed in, 403 to a change that isn't an admin's own doing."""
    services: Services = connection.app.state.services
    check_origin(str(connection.scope.get("method")), connection.headers, guarded=await services.keys.wanted())
    operator = await operator_of(connection)
    public = bool(handler.opt.get("public"))
    if operator is None and not public:
        raise ProblemError(401, "sign_in_needed", "sign in to see this page")
    if operator is not None:
        connection.state.operator = operator
        connection.state.key = operator.key
        if operator.key is not None:
            bind_contextvars(key_id=str(operator.key.id))
    check_query(connection)
    if connection.scope.get("method") in _SAFE:
        return
    if operator is not None and not operator.may_change and not public:
        detail = "this key may look and change nothing; sign in with an admin key for that"
        raise ProblemError(403, "forbidden", detail)
    await _require_token(connection, operator)


async def operator_of(connection: Connection) -> Operator | None:
    """Who looks, as of now; None for who has to sign in."""
    services: Services = connection.app.state.services
    if not await services.keys.wanted():
        return Operator()
    found = await services.sessions.find(connection.cookies.get(COOKIE, ""))
    if found is None or not found[1].counts_from(address_of(connection)):
        return None
    return Operator(session=found[0], key=found[1])


def current(connection: Connection) -> Operator | None:
    """Who looks, as the guard found."""
    operator: Operator | None = connection.state.get("operator")
    return operator


async def _require_token(connection: Connection, operator: Operator | None) -> None:
    services: Services = connection.app.state.services
    token = connection.headers.get(TOKEN_HEADER) or (await posted(connection)).get(TOKEN, "")
    if not await services.sessions.is_form_token(token, operator.session if operator else None):
        detail = "this form is from before you signed in, or from another page; load the page again"
        raise ProblemError(403, "form_expired", detail)
