"""Who a key is, for the client that holds it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from litestar import Request, Response, get

from api.auth import ANY_KEY, viewer
from api.openapi import ServicesDependency, answers
from api.quota_headers import standing_headers
from api.quota_schemas import MeView
from api.quota_views import quota_view
from jobstore.keys import Scope
from jobstore.rules.quotas import owners_of


@get("/me", opt=ANY_KEY, summary="Who am I", responses=answers())
async def read_me(request: Request[Any, Any, Any], services: ServicesDependency) -> Response[MeView]:
    """The key that asks, what it may do, and its quotas as they stand, in `RateLimit-Policy` and `RateLimit` too."""
    key = viewer(request)
    models = tuple(name for name in services.settings.models if key is None or key.may_use(name))
    if key is None:
        nobody = MeView(
            id=None, name=None, scopes=tuple(Scope), models=models, team=None, customer=None, weight=1.0,
            expires_at=None, quotas=(),
        )  # fmt: skip
        return Response(nobody)
    own = await services.store.quotas(owners_of(key.id, key.team, key.customer))
    me = MeView(
        id=key.id,
        name=key.name,
        scopes=key.scopes,
        models=models,
        team=key.team,
        customer=key.customer,
        weight=key.weight,
        expires_at=key.expires_at,
        quotas=tuple(quota_view(status, to=key) for status in own),
    )
    return Response(me, headers=standing_headers(own, datetime.now(UTC)))
