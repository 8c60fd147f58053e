"""Which jobs a canary takes: a share of those that ask for its model, the same ones however often they are sent."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable

from msgspec.structs import replace

from api.problems import ProblemError
from jobstore.canaries import CanaryShare
from jobstore.fingerprint import batch_key, cache_scope, fingerprints
from jobstore.job import JobRequest, NewJob, Route
from jobstore.protocol import JobStore
from safelight.config import Settings
from safelight.config.canaries import canaries_of
from safelight.telemetry import get_logger
from safelight.telemetry.metrics import CANARY_SHARE

_log = get_logger(__name__)

_EVERY_S = 2.0  # how old what operators said may be in another process of the API
_LIMIT_S = 3.0

Build = Callable[[str], JobRequest]
"""The request as the model of that name would have it. Raises ProblemError where it can't."""


class Canaries:
    """The shares in force, as this process knows them: those of the settings, or what operators said since."""

    def __init__(self, store: JobStore, settings: Settings) -> None:
        """Those of the settings, before the first ``refresh``."""
        self._store = store
        self._settings = settings
        self.names = tuple(name for name, model in settings.models.items() if model.canary_of)
        self.said: dict[str, CanaryShare] = {}

    def share_of(self, name: str) -> float:
        """The share that a canary takes now, from 0 to 1."""
        said = self.said.get(name)
        return self._settings.models[name].share if said is None else said.share

    def choose(self, asked: str, job: str) -> str | None:
        """The canary that takes the job of a model; None for the model itself.

        ``job`` is what stays the same when it is sent again. A share that grows takes others beside those it had.
        """
        digest = hashlib.sha256(f"{asked}\0{job}".encode()).digest()
        place = int.from_bytes(digest[:8]) / 2**64
        edge = 0.0
        for name in canaries_of(self._settings.models, asked):
            edge += self.share_of(name)
            if place < edge:
                return name
        return None

    async def refresh(self) -> None:
        """Ask the store what operators said. Raises what the store does."""
        if not self.names:
            return
        async with asyncio.timeout(_LIMIT_S):
            self.said = {said.model: said for said in await self._store.canary_shares()}
        for name in self.names:
            CANARY_SHARE.labels(self._settings.models[name].canary_of, name).set(self.share_of(name))

    async def run(self) -> None:
        """Ask now and then, until cancelled; where there is no canary there is nothing to ask."""
        while self.names:
            try:
                await self.refresh()
            except Exception as error:  # the drivers' errors differ; the shares stay as they were
                _log.warning("canaries not read", action="canaries.not_read", error=type(error).__name__)
            await asyncio.sleep(_EVERY_S)


def with_canary(new: NewJob, canaries: Canaries | None, settings: Settings, build: Build) -> NewJob:
    """The job as the canary that takes it renders it, at the price of the model asked for; else as it is.

    The key needs no right to the canary: it asked for the model. Where the canary fails for good, the model itself
    renders, and after that its fallbacks. A request that the canary can't take is left to the model.
    """
    asked = new.request.model
    # An idempotency key has the same job each time; without one each submit is a job of its own.
    job = str(new.id) if new.replay is None else f"{new.key_id}:{new.replay.key}"
    name = None if canaries is None else canaries.choose(asked, job)
    if name is None:
        return new
    model = settings.models[name]
    try:
        request = replace(build(name), fallback_for=None, canary_for=asked)
    except ProblemError as problem:
        _log.info("the canary can't take a job", action="canaries.unable", model=name, reason=problem.detail)
        return new
    exact, seedless = fingerprints(request, model, cache_scope(settings.jobs.cache_scope, new.key_id, new.team))
    stable = Route(
        request=new.request,
        lane=new.lane,
        batch_key=new.batch_key,
        fingerprint=new.fingerprint,
        seedless_fingerprint=new.seedless_fingerprint,
        price=new.price,
        rate=new.rate,
        wait_s=model.fallback_after_s,
    )
    return replace(
        new,
        request=request,
        lane=model.lane,
        batch_key=batch_key(request, model),
        fingerprint=exact,
        seedless_fingerprint=seedless,
        fallbacks=(stable, *new.fallbacks),
    )
