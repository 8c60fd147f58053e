"""Canaries over HTTP: how they do beside their models, for observers; their shares, for admins."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, get, post
from litestar.params import JSONBody, PathParameter
from litestar.types import ControllerRouterHandler

from api.auth import ADMIN, OBSERVE, actor
from api.canary_schemas import CanaryList, CanaryView, ComparedView, ModelFiguresView, ShareRequest
from api.decoding import ShareBody
from api.openapi import ServicesDependency, answers
from api.problems import ProblemError, invalid
from api.services import Services
from api.views import plain_amount
from jobstore.audit import Actor
from jobstore.canaries import ModelFigures
from safelight.config.canaries import canaries_of

AnyRequest = Request[Any, Any, Any]
CanaryName = Annotated[str, PathParameter(description="The canary: a model of the settings with `canary_of`.")]

_HOUR_S, _DAY_S = 3600.0, 86400.0


@get("/canaries", opt=OBSERVE, summary="List canaries", responses=answers())
async def list_canaries(services: ServicesDependency) -> CanaryList:
    """Each canary beside its model: success, times and cost of the last hour and day; figures are seconds old."""
    return CanaryList(data=await canary_views(services))


@post(
    "/canaries/{name:str}/share",
    status_code=200,
    dto=ShareBody,
    return_dto=None,
    opt={**ADMIN, "json": True},
    summary="Set a canary's share",
    responses=answers(400, 404, 413, 415),
)
async def share_canary(
    name: CanaryName, data: JSONBody[ShareRequest], request: AnyRequest, services: ServicesDependency
) -> CanaryView:
    """Let the canary take that share of its model's jobs; all processes follow within seconds."""
    return await shared(services, name, data.share, "canary.shared", actor(request))


@post(
    "/canaries/{name:str}/promote", status_code=200, opt=ADMIN, summary="Promote a canary", responses=answers(400, 404)
)
async def promote_canary(name: CanaryName, request: AnyRequest, services: ServicesDependency) -> CanaryView:
    """Let the canary take all of its model's jobs, until the settings make it the model."""
    return await shared(services, name, 1.0, "canary.promoted", actor(request))


@post("/canaries/{name:str}/rollback", status_code=200, opt=ADMIN, summary="Roll a canary back", responses=answers(404))
async def roll_back_canary(name: CanaryName, request: AnyRequest, services: ServicesDependency) -> CanaryView:
    """Let the canary take no job any more. What it has goes on; where that fails, the model itself renders."""
    return await shared(services, name, 0.0, "canary.rolled_back", actor(request))


async def shared(services: Services, name: str, share: float, action: str, by: Actor) -> CanaryView:
    """Set a canary's share. Raises ProblemError where there is none of that name, or no such share is left."""
    canaries, models = services.canaries, services.settings.models
    if name not in canaries.names:
        offer = ", ".join(canaries.names) or "none; canary_of in the settings makes a model one"
        raise ProblemError(404, "canary_not_found", f"there is no such canary; there are: {offer}", field="name")
    await canaries.refresh()
    others = sum(canaries.share_of(other) for other in canaries_of(models, models[name].canary_of) if other != name)
    if share + others > 1 + 1e-9:
        raise invalid("share", f"share must be at most {1 - others:g}: other canaries of the model take {others:g}")
    await services.store.share_canary(name, share, action, by)
    await canaries.refresh()
    return next(view for view in await canary_views(services) if view.name == name)


async def canary_views(services: Services) -> tuple[CanaryView, ...]:
    """The canaries of the settings, with the shares in force."""
    names = services.canaries.names
    if not names:
        return ()
    await services.canaries.refresh()
    hour, day = await services.glances.get("canaries", lambda: _figures(services))
    return tuple(_view(services, name, hour, day) for name in names)


async def _figures(services: Services) -> tuple[dict[str, ModelFigures], dict[str, ModelFigures]]:
    models, currency = services.settings.models, services.settings.jobs.currency
    wanted = sorted({*services.canaries.names, *(models[name].canary_of for name in services.canaries.names)})
    windows = [await services.store.model_figures(wanted, seconds, currency) for seconds in (_HOUR_S, _DAY_S)]
    hour, day = ({one.model: one for one in window} for window in windows)
    return hour, day


def _view(services: Services, name: str, hour: dict[str, ModelFigures], day: dict[str, ModelFigures]) -> CanaryView:
    models, said = services.settings.models, services.canaries.said.get(name)
    model = models[name]
    stable = model.canary_of
    return CanaryView(
        name=name,
        canary_of=stable,
        revision=model.revision,
        stable_revision=models[stable].revision,
        lane=model.lane,
        share=services.canaries.share_of(name),
        configured=model.share,
        changed_at=said.changed_at if said else None,
        changed_by=said.changed_by if said else None,
        currency=services.settings.jobs.currency,
        hour=ComparedView(canary=_figures_view(hour.get(name)), stable=_figures_view(hour.get(stable))),
        day=ComparedView(canary=_figures_view(day.get(name)), stable=_figures_view(day.get(stable))),
    )


def _figures_view(found: ModelFigures | None) -> ModelFiguresView:
    cost = found.cost_per_picture if found else None
    return ModelFiguresView(
        succeeded=found.succeeded if found else 0,
        failed=found.failed if found else 0,
        success_rate=found.success_rate if found else None,
        p50_s=found.p50_s if found else None,
        p90_s=found.p90_s if found else None,
        pictures=found.pictures if found else 0,
        cost_per_picture=None if cost is None else plain_amount(round(cost, 9)),
        gpu_seconds_per_picture=found.gpu_seconds_per_picture if found else None,
    )


CANARY_ROUTES: tuple[ControllerRouterHandler, ...] = (
    list_canaries,
    share_canary,
    promote_canary,
    roll_back_canary,
)
