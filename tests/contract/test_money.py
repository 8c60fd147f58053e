"""Random lives of many jobs: the money agrees with the states at every end, to the last decimal."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobstore.errors import QuotaExceededError
from jobstore.ids import uuid7
from jobstore.job import CacheOutcome, JobError, JobState
from jobstore.operating.jobs import JobFilter
from jobstore.protocol import JobStore, Lease
from tests.contract.making import NOTHING, new_job, new_quota, new_worker, result, sweep

ACTIONS = ("submit", "claim", "finish", "fail", "retry_later", "cancel", "confirm", "release", "die", "redrive")
PRICES = st.decimals(min_value=0, max_value=1000, places=9)
LIVES = st.lists(st.sampled_from(ACTIONS), min_size=5, max_size=40)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LIVES, st.lists(PRICES, min_size=1, max_size=3), st.integers())
def test_reservations_and_charges_agree_with_states(
    make_store: Callable[[], JobStore], actions: list[str], prices: list[Decimal], seed: int
) -> None:
    """Whatever clients and workers do, in whatever order."""
    asyncio.run(_live(make_store(), actions, prices, random.Random(seed)))


async def _live(store: JobStore, actions: list[str], prices: list[Decimal], chance: random.Random) -> None:
    await store.open()
    try:
        lives = Lives(store, prices, chance)
        for kind, most, period in (("spend", 2000, "1y"), ("concurrency", 6, "total"), ("requests", 1000, "1d")):
            await store.create_quota(new_quota(lives.lane, most, kind, period=period, rolling=kind == "requests"))
        for action in actions:
            await getattr(lives, action)()
            await lives.check()
        await lives.end()
        await lives.check()
    finally:
        await store.close()


class Lives:
    """Clients and workers that act at random on one store. Its jobs are in a lane of their own."""

    def __init__(self, store: JobStore, prices: list[Decimal], chance: random.Random) -> None:
        """Nothing is submitted yet."""
        self.store, self.prices, self.chance = store, prices, chance
        self.lane = f"lane-{uuid7()}"
        self.worker = new_worker(self.lane)
        self.leases: list[Lease] = []
        self.jobs = [new_job(lane=self.lane)][:0]

    async def submit(self) -> None:
        """One of three pictures, so that jobs join."""
        fingerprint = f"{self.lane}-{self.chance.randrange(3)}"
        job = new_job(fingerprint, lane=self.lane, price=self.chance.choice(self.prices), team=self.lane)
        with suppress(QuotaExceededError):
            await self.store.submit(job)
            self.jobs.append(job)

    async def claim(self) -> None:
        """Take the next."""
        lease = await self.store.claim(self.worker, [self.lane])
        self.leases += [lease] if lease else []

    def _lease(self) -> Lease | None:
        return self.leases.pop(self.chance.randrange(len(self.leases))) if self.leases else None

    async def finish(self) -> None:
        """Rendered, or found."""
        if lease := self._lease():
            await self.store.finish(
                lease.token, result(lease, self.chance.choice([CacheOutcome.MISS, CacheOutcome.HIT]))
            )

    async def fail(self) -> None:
        """For all that wait, or for the leader alone."""
        if lease := self._lease():
            code = self.chance.choice(["render_failed", "deadline_exceeded"])
            await self.store.fail(lease.token, JobError(code=code, message="x"))

    async def retry_later(self) -> None:
        """At once, or much later."""
        if lease := self._lease():
            error = JobError(code="render_failed", message="x")
            await self.store.fail(lease.token, error, retry_in_s=self.chance.choice([0, 3600]))

    async def cancel(self) -> None:
        """Any job, ended or not."""
        if self.jobs:
            await self.store.cancel(self.chance.choice(self.jobs).id)

    async def confirm(self) -> None:
        """The worker stops whatever it holds that is to be canceled."""
        for held in (await self.store.beat(self.worker)).held:
            if held.cancel_requested:
                await self.store.canceled(held.token)

    async def release(self) -> None:
        """A graceful stop."""
        if lease := self._lease():
            await self.store.release(lease.token)

    async def die(self) -> None:
        """The worker is gone with all that it holds."""
        await self.store.leave(self.worker.id)
        await sweep(self.store, max_rescues=3)

    async def redrive(self) -> None:
        """A failed or dead job."""
        ended = [job for job in self.jobs if (await self.store.get(job.id)).state in (JobState.FAILED, JobState.DEAD)]
        if ended:
            with suppress(QuotaExceededError):
                await self.store.retry(self.chance.choice(ended).id)

    async def end(self) -> None:
        """Everything that has not ended is canceled, running ones by their worker."""
        for job in self.jobs:
            await self.store.cancel(job.id)
        await self.confirm()
        assert all([(await self.store.get(job.id)).state.terminal for job in self.jobs])

    async def check(self) -> None:
        """What holds at every moment."""
        prices = {job.id: job.price for job in self.jobs}
        unfinished, charged = 0, NOTHING
        held = NOTHING
        page = await self.store.list_jobs(JobFilter(limit=200))
        for job in page.jobs:
            if job.id not in prices:
                continue
            rendering = not job.state.terminal and job.leader_id is None
            assert job.reserved == (prices[job.id] if rendering else NOTHING), job
            paid = job.state is JobState.SUCCEEDED and job.cache is CacheOutcome.MISS
            assert job.charged == (prices[job.id] if paid else NOTHING), job
            assert (job.error is not None) == (job.state in (JobState.FAILED, JobState.DEAD)) or not job.state.terminal
            assert bool(job.pictures) == (job.state is JobState.SUCCEEDED)
            unfinished += not job.state.terminal
            held += NOTHING if job.state.terminal else prices[job.id]
            charged += job.charged
        money, jobs, submits = await self.store.quotas([("team", self.lane)])
        assert (money.held, money.used) == (held, charged)
        assert (jobs.held, jobs.used) == (Decimal(unfinished), NOTHING)
        assert (submits.held, submits.used) == (NOTHING, Decimal(len(self.jobs)))
        assert money.held + money.used <= money.quota.most
        assert jobs.held <= jobs.quota.most
