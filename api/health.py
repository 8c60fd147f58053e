"""Probes, and metrics for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from api.auth import needs_observer
from api.gauges import StoreGauges
from api.openapi import ServicesDependency, answers
from api.problems import ProblemError
from api.schemas import Health, LaneHealth, Overview, PartHealth, WorkerHealth
from api.services import Services
from jobstore.errors import MigrationError
from jobstore.protocol import LaneCount, Worker
from safelight import __version__
from safelight.telemetry import get_logger

_log = get_logger(__name__)

_LIMIT_S = 3.0


@get("/livez", summary="Is the process alive?", responses=answers(always=(500,)))
async def livez() -> dict[str, str]:
    """The process runs and its loop turns; nothing else is asked."""
    return {"status": "ok"}


@get("/readyz", summary="Can it serve?", responses=answers(always=(500, 503)))
async def readyz(services: ServicesDependency) -> Health:
    """The store answers with its schema up to date, and the outputs can be written and read; 503 says what fails."""
    health = await _examine(services)
    failing = "; ".join(f"{part.name}: {part.detail}" for part in health.parts if not part.ok)
    if failing:
        raise ProblemError(503, "not_ready", failing, headers={"Retry-After": "5"})
    return health


@get("/healthz", summary="How is every part?", responses=answers(always=(500,)))
async def healthz(services: ServicesDependency) -> Overview:
    """Every part, the live workers and the backlog by lane, for people; always 200."""
    health = await _examine(services)
    try:
        async with asyncio.timeout(_LIMIT_S):
            workers = await services.store.workers(services.settings.worker.lease_s)
            counts = await services.store.counts()
    except Exception as error:  # the store's own part says so already, or else this
        _log.warning("workers not counted", action="health.workers_failed", error=type(error).__name__)
        return _overview(health, (), (), ("the workers and the backlog can't be read",))
    return _overview(health, workers, _backlog(services.settings.lanes, counts), _warnings(services, workers))


def _overview(
    health: Health, workers: tuple[Worker, ...], backlog: tuple[LaneHealth, ...], warnings: tuple[str, ...]
) -> Overview:
    return Overview(
        **msgspec.structs.asdict(health),
        workers=tuple(WorkerHealth(host=one.host, device=one.device, lanes=one.lanes) for one in workers),
        backlog=backlog,
        warnings=warnings,
    )


def _backlog(lanes: tuple[str, ...], counts: tuple[LaneCount, ...]) -> tuple[LaneHealth, ...]:
    names = dict.fromkeys([*lanes, *(count.lane for count in counts)])
    found = {name: {count.state.value: count.count for count in counts if count.lane == name} for name in names}
    return tuple(LaneHealth(lane=name, **states) for name, states in found.items())


def _warnings(services: Services, workers: tuple[Worker, ...]) -> tuple[str, ...]:
    lanes = services.settings.lanes
    paused = [f"the lane {lane} is paused: its jobs wait" for lane in lanes if services.backpressure.is_paused(lane)]
    if services.bell.away:
        paused.append("the broker is away: workers look for jobs now and then instead of hearing bells")
    if not workers:
        return ("no worker is alive: jobs wait", *paused)
    served = {lane for worker in workers for lane in worker.lanes}
    unserved = [f"no live worker serves the lane {lane}: its jobs wait" for lane in lanes if lane not in served]
    return (*unserved, *paused)


@get("/metrics", guards=[needs_observer], media_type=CONTENT_TYPE_LATEST, summary="Metrics", responses=answers(403))
async def metrics(gauges: NamedDependency[SkipValidation[StoreGauges]]) -> Response[bytes]:
    """Prometheus' text format."""
    await gauges.refresh()
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)


async def _examine(services: Services) -> Health:
    probes = {"store": services.store.ping, "outputs": services.outputs.ping}
    parts = await asyncio.gather(*(_probe(name, ping) for name, ping in probes.items()))
    ok = all(part.ok for part in parts)
    return Health(status="ok" if ok else "failing", version=__version__, parts=tuple(parts))


async def _probe(name: str, ping: Callable[[], Awaitable[None]]) -> PartHealth:
    try:
        async with asyncio.timeout(_LIMIT_S):
            await ping()
    except MigrationError as error:  # its words are ours, and say what to do
        _log.warning("a part fails", action="health.failing", part=name, error="MigrationError", reason=str(error))
        return PartHealth(name=name, ok=False, detail=str(error))
    except Exception as error:  # whatever it is, it is what the probe is there to tell
        _log.warning("a part fails", action="health.failing", part=name, error=type(error).__name__, reason=str(error))
        return PartHealth(name=name, ok=False, detail=f"fails with {type(error).__name__}; the log says more")
    return PartHealth(name=name, ok=True, detail="answers")
