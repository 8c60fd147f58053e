"""The ways that a job may go when its model can't render it: one for each model that takes its place, all resolved."""

from __future__ import annotations

from collections.abc import Callable

from api.problems import ProblemError
from jobstore.fingerprint import batch_key, cache_scope, fingerprints
from jobstore.job import JobRequest, Route
from jobstore.keys import ApiKey
from jobstore.pricing import price_of
from safelight.config import Settings

Build = Callable[[str], JobRequest]
"""The request as the model of that name would have it. Raises ProblemError where it can't."""


def routes_of(
    asked: JobRequest, key: ApiKey | None, settings: Settings, build: Build
) -> tuple[tuple[Route, ...], tuple[str, ...]]:
    """The routes of a job in their order, and a warning for each model that can't take the place of the one asked for.

    Models that the key may not use are passed over in silence.
    """
    routes, warnings = [], []
    key_id, team = (key.id, key.team) if key else (None, None)
    scope = cache_scope(settings.jobs.cache_scope, key_id, team)
    model = settings.models[asked.model]
    wait_s = model.fallback_after_s
    for name in model.fallbacks:
        if key is not None and not key.may_use(name):
            continue
        try:
            request = build(name)
        except ProblemError as problem:
            warnings.append(f"{name} can't take the place of {asked.model}: {problem.detail}")
            continue
        routes.append(_route(request, wait_s, settings, scope))
        wait_s = settings.models[name].fallback_after_s
    return tuple(routes), tuple(warnings)


def _route(request: JobRequest, wait_s: float, settings: Settings, scope: str | None) -> Route:
    model = settings.models[request.model]
    exact, seedless = fingerprints(request, model, scope)
    price = price_of(request, model)
    return Route(
        request=request,
        lane=model.lane,
        batch_key=batch_key(request, model),
        fingerprint=exact,
        seedless_fingerprint=seedless,
        price=price.most,
        rate=price.rate,
        wait_s=wait_s,
    )
