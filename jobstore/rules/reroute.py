"""The next route of a job that its model can't render, or not soon: its fallbacks, in their order, each once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from jobstore.job import CacheOutcome, JobError, JobState, Route
from jobstore.protocol import Swept
from jobstore.rules.moves import Columns, detach, followers_of, tell, write
from jobstore.rules.rows import NOW, Row, Rows

LOOKED_AT = 2000
"""Of so many queued jobs at a time a sweep looks whether they are stuck."""

Choice = Callable[[Row], tuple[Route, ...]]
"""The routes that a job may take now, the one that it takes first."""


def routes_left(job: Row) -> tuple[Route, ...]:
    """The routes that a job has not taken yet."""
    return msgspec.convert(job["fallbacks"], tuple[Route, ...]) if job["fallbacks"] else ()


async def send_on(
    rows: Rows, jobs: Sequence[Row], cause: str, error: JobError | None = None, choose: Choice = routes_left
) -> tuple[list[Row], tuple[str, ...]]:
    """Queue locked jobs on their next routes; those that have none and stay, and one lane for each bell to ring.

    ``jobs`` are one that runs or is queued, and those that joined it. Those whose next routes would give the same
    pixels go on together.
    """
    choose = await _allowed(rows, jobs, choose)
    together: dict[str, list[tuple[Row, tuple[Route, ...]]]] = {}
    stayed = []
    for job in jobs:
        routes = choose(job) if job["state"] in (JobState.RUNNING, JobState.QUEUED) else ()
        if routes:
            together.setdefault(routes[0].fingerprint, []).append((job, routes))
        else:
            stayed.append(job)
    for group in together.values():
        leader = group[0][0]
        for job, routes in group:
            changed = await _take(rows, job, routes, None if job is leader else leader, cause, error)
            if job is leader and len(group) > 1:
                await write(rows, [changed], lambda _: {"followed": True})
    return stayed, tuple(group[0][1][0].lane for group in together.values())


async def _take(
    rows: Rows, job: Row, routes: tuple[Route, ...], leader: Row | None, cause: str, error: JobError | None
) -> Row:
    route, *left = routes
    place = await rows.place({**job, "lane": route.lane})
    expected_s = await rows.expected_s(route.request)
    share = job["share_s"] / job["expected_s"] if job["expected_s"] else 1.0
    columns = {
        **_rerouted(job, route, left, error),
        **dataclasses.asdict(place),
        "expected_s": expected_s,
        "share_s": expected_s * share,
        "leader_id": None if leader is None else leader["id"],
        "cache": CacheOutcome.MISS if leader is None else CacheOutcome.JOINED,
        "reserved": route.price if leader is None else Decimal(0),
        "warnings": [*job["warnings"], f"sent on from {job['model']} to {route.request.model}: {cause}"],
    }
    [changed] = await write(rows, [job], lambda _: columns)
    told: dict[str, Any] = {"from_model": job["model"], "to_model": route.request.model, "cause": cause}
    await tell(rows, [changed], reason="fallback", **told, price=format(route.price, "f"))
    return changed


def _rerouted(job: Row, route: Route, left: Sequence[Route], error: JobError | None) -> Columns:
    """What the job is from now on. Nobody joins it: one that is asked for this model by itself may be in flight."""
    return {
        "state": JobState.QUEUED,
        "request": msgspec.to_builtins(route.request),
        "model": route.request.model,
        "lane": route.lane,
        "batch_key": route.batch_key,
        "fingerprint": route.fingerprint,
        "seedless_fingerprint": route.seedless_fingerprint,
        "price": route.price,
        "rate": route.rate,
        "fallbacks": msgspec.to_builtins(left),
        "joinable": False,
        "followed": False,
        "lease_token": None,
        "worker_id": None,
        "cancel_requested": False,
        "error": None if error is None else msgspec.to_builtins(error),
        "attempts_allowed": job["attempts"] + job["max_attempts"],
        "rescues": 0,
        "rung_at": NOW,
    }


async def leave(rows: Rows, limit: int) -> Swept:
    """Send on queued jobs whose lane nobody serves, or that have waited in it for as long as their route says.

    Only to where somebody is: a job keeps its place, and its routes, rather than wait elsewhere.
    """
    served = await rows.open_lanes()
    ring: tuple[str, ...] = ()
    causes = []
    for job in await rows.lock_stuck(sorted(served), limit) if served else ():
        cause = "lane_full" if job["lane"] in served else "lane_down"
        moved = await _leave(rows, job, cause, _open(served, job["lane"]))
        ring += moved
        causes += [cause] if moved else []
    return Swept(ring=ring, fallbacks=tuple(causes))


async def _leave(rows: Rows, job: Row, cause: str, choose: Choice) -> tuple[str, ...]:
    """Send on a queued job, and of those that joined it who would go the same way; the others wait by themselves."""
    followers = await followers_of(rows, job)
    choose = await _allowed(rows, [job, *followers], choose)
    routes = choose(job)
    if not routes:
        return ()
    goal = routes[0].fingerprint
    along = [row for row in followers if (own := choose(row)) and own[0].fingerprint == goal]
    others = [row for row in followers if row not in along]
    _, ring = await send_on(rows, [job, *along], cause, choose=choose)
    return (*ring, *await detach(rows, others, reason="leader fell back"))


def _open(served: frozenset[str], lane: str) -> Choice:
    """The routes from the first on that leads to another lane that is served; those before it are passed over."""

    def choose(job: Row) -> tuple[Route, ...]:
        routes = routes_left(job)
        first = next(
            (at for at, route in enumerate(routes) if route.lane in served and route.lane != lane), len(routes)
        )
        return routes[first:]

    return choose


async def _allowed(rows: Rows, jobs: Sequence[Row], choose: Choice) -> Choice:
    """The same choice among the models that the jobs' keys may use now: a key may have lost some since the submit."""
    models = {key_id: await rows.models_of(key_id) for key_id in {job["key_id"] for job in jobs} if key_id is not None}

    def among(job: Row) -> tuple[Route, ...]:
        allowed = models.get(job["key_id"])
        routes = choose(job)
        return routes if allowed is None else tuple(route for route in routes if route.request.model in allowed)

    return among
