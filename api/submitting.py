"""Accepting a job: known already, found in the cache, joined to a render in flight, or queued with a bell."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from api.idempotency import REPLAYED
from api.resolve import with_seed
from api.services import Services
from api.tracing import note_job, submit_span
from jobstore.cached import find_pictures
from jobstore.job import CacheMode, Job, JobState, NewJob, Picture, Replay
from jobstore.live import WEBHOOKS_BELL
from safelight.telemetry import get_logger
from safelight.telemetry.dimensions import dimension_metrics
from safelight.telemetry.metrics import JOBS_SUBMITTED, SUBMITS_REPLAYED

_log = get_logger(__name__)


class Accepted(NamedTuple):
    """The job of a submit. ``replayed`` says that an earlier submit made it, and this one nothing."""

    job: Job
    replayed: bool = False


def submit_headers(services: Services, accepted: Accepted) -> dict[str, str]:
    """What the answer to a submit tells besides the job: that it is a repeat, or how the key's quotas stand now."""
    return REPLAYED if accepted.replayed else services.quota_headers.of(accepted.job.quotas)


async def accept(services: Services, new: NewJob, *, seed_drawn: bool) -> Accepted:
    """Submit ``new``; a bell rings when a worker has something to do.

    What adds nothing to the queue, a repeat or a hit, is answered whatever waits there. Raises ProblemError where there
    is no room for the rest, ReplayMismatchError, ReplayGoneError.
    """
    with submit_span(new) as span:
        new = msgspec.structs.replace(new, traceparent=span.traceparent)
        accepted = await _accept(services, new, seed_drawn=seed_drawn)
        note_job(span, accepted.job, replayed=accepted.replayed)
        return accepted


async def _accept(services: Services, new: NewJob, *, seed_drawn: bool) -> Accepted:
    replay = new.replay
    new, pictures = await _from_cache(services, new, seed_drawn=seed_drawn)
    job = await (services.store.submit(new, pictures) if pictures else _queue(services, new))
    if replay is not None and job.id != new.id:  # the store knew its key
        return _replayed(job, replay)
    if job.state is JobState.QUEUED:
        services.ring([job.lane])  # for a joined one too: a claim may have passed its leader by while it was joined
    if job.webhook is not None:
        services.ring([WEBHOOKS_BELL])
    JOBS_SUBMITTED.labels(job.request.model, job.cache.value).inc()
    dimension_metrics(services.settings.telemetry.dimensions).submitted(job.dimensions, job.cache.value)
    _log.info(
        "job accepted",
        action="jobs.accepted",
        job_id=str(job.id),
        state=job.state.value,
        cache=job.cache.value,
        model=job.request.model,
        key_id=str(job.key_id) if job.key_id else None,
        dimensions=job.dimensions,
    )
    return Accepted(job)


async def _queue(services: Services, new: NewJob) -> Job:
    if await services.backpressure.is_full(new):
        known = await _known(services, new)
        if known is None:
            raise services.backpressure.refusal(new)
        return known
    with services.backpressure.room(new) as room:
        job = await services.store.submit(new)
        if job.id == new.id:
            room.took(job)
    return job


async def _known(services: Services, new: NewJob) -> Job | None:
    """The job that an earlier submit made. Else it is the store's submit that finds it: it need not be asked twice."""
    if new.replay is None or new.replay.renew:
        return None
    return await services.store.find_replay(new.key_id, new.replay)


def _replayed(job: Job, replay: Replay) -> Accepted:
    by = replay.key.partition(":")[0]
    SUBMITS_REPLAYED.labels(by).inc()
    _log.info("submit repeated", action="jobs.replayed", job_id=str(job.id), state=job.state.value, by=by)
    return Accepted(job, replayed=True)


async def _from_cache(services: Services, new: NewJob, *, seed_drawn: bool) -> tuple[NewJob, tuple[Picture, ...]]:
    """The job and the pictures that it needn't wait for; none where the cache has none, or none that can be used."""
    if new.request.start_at is not None or (seed_drawn and new.request.cache is CacheMode.USE):
        return new, ()  # for later; or under a seed that nobody drew before
    cached = await find_pictures(services.store, services.outputs, new, token=0)
    if cached is None:
        return new, ()
    if seed_drawn and cached.fingerprint != new.fingerprint:
        new = with_seed(new, cached.pictures[0].seed, services.settings)
    return new, cached.pictures
