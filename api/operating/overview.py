"""How everything stands, on one page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from litestar import get
from litestar.params import QueryParameter

from api.auth import OBSERVE
from api.key_names import owners_names
from api.lanes import all_lanes
from api.openapi import ServicesDependency, answers
from api.operating.problems import Standing, budgets_used, problems_of
from api.operating.schemas import (
    DevicesView,
    HourView,
    LettersView,
    MinuteView,
    OverviewView,
    TodayCost,
    TodayView,
)
from api.problems import invalid
from api.services import Services
from api.views import lane_view, plain_amount
from jobstore.operating.figures import Figures
from jobstore.operating.workers import WorkerStatus
from jobstore.protocol import Lane
from jobstore.quotas import zones

_NOW = ""  # no zone is called so


@get("/overview", opt=OBSERVE, summary="How everything stands", responses=answers(400))
async def read_overview(
    services: ServicesDependency,
    zone: Annotated[
        str, QueryParameter(max_length=64, description="The time zone whose midnight today's cost begins at.")
    ] = "UTC",
) -> OverviewView:
    """What waits and runs, the last hour by minutes, letters of a day, devices, today's cost, and what is wrong now.

    Up to two seconds old.
    """
    if zone not in zones():
        raise invalid("zone", "zone is a time zone like Europe/Berlin")
    return await overview(services, zone)


async def overview(services: Services, zone: str) -> OverviewView:
    """The overview of a zone, up to two seconds old, however many ask for it, and in however many zones.

    Raises StoreBusyError where the store has no turn for the figures.
    """
    figures: Figures = await services.overviews.get(zone, lambda: services.store.figures(zone))
    now: dict[str, Any] = await services.overviews.get(_NOW, lambda: _now(services))
    standing = Standing(figures=figures, **now, broker_away=services.bell.away)
    lanes = standing.lanes
    return OverviewView(
        at=figures.at,
        scheduled=sum(lane.scheduled for lane in lanes),
        queued=sum(lane.queued for lane in lanes),
        running=sum(lane.running for lane in lanes),
        oldest_s=_oldest(lanes),
        lanes=tuple(lane_view(lane) for lane in lanes),
        hour=_hour(figures),
        letters=LettersView(failed=figures.failed, dead=figures.dead, newest_at=figures.letter_at),
        devices=_devices(standing.workers),
        today=_today(figures, zone),
        problems=problems_of(standing),
    )


async def _now(services: Services) -> dict[str, Any]:
    """How all stands that no time zone has to do with."""
    store = services.store
    quotas = await store.quotas()
    return {
        "lanes": tuple((await all_lanes(services)).values()),
        "workers": await store.worker_statuses(),
        "quotas": quotas,
        "names": await owners_names(services, budgets_used(quotas)),
        "endpoints": await store.endpoints(all_keys=True),
    }


def _oldest(lanes: Sequence[Lane]) -> float | None:
    return max((round(lane.oldest_s, 1) for lane in lanes if lane.queued), default=None)


def _hour(figures: Figures) -> HourView:
    sums: dict[str, Any] = {
        name: sum(getattr(minute, name) for minute in figures.minutes)
        for name in ("finished", "succeeded", "failed", "canceled")
    }
    return HourView(
        **sums,
        success_rate=_share(figures.success_rate),
        cache_share=_share(figures.cache_share),
        minutes=tuple(
            MinuteView(at=one.at, succeeded=one.succeeded, failed=one.failed, canceled=one.canceled)
            for one in figures.minutes
        ),
    )


def _devices(workers: Sequence[WorkerStatus]) -> DevicesView:
    alive = [worker for worker in workers if worker.alive]
    told = [worker.report.occupancy for worker in alive if worker.report and worker.report.occupancy is not None]
    return DevicesView(
        alive=len(alive),
        silent=len(workers) - len(alive),
        draining=sum(worker.drain_asked_at is not None for worker in alive),
        slots=sum(worker.report.slots for worker in alive if worker.report),
        held=sum(worker.held for worker in alive),
        use=_share(sum(told) / len(told)) if told else None,
    )


def _today(figures: Figures, zone: str) -> TodayView:
    costs = tuple(
        TodayCost(
            currency=cost.currency, charged=plain_amount(cost.charged), gpu_seconds=plain_amount(cost.gpu_seconds)
        )
        for cost in figures.costs
    )
    return TodayView(zone=zone, since=figures.since, costs=costs)


def _share(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
