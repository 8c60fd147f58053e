"""Random lives, the same on every store and on the plain one: after each step all of them tell the same."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from jobstore.job import (
    CacheOutcome,
    Job,
    JobError,
    JobState,
    NewJob,
    Picture,
)
from jobstore.ledger import Spent
from jobstore.operating.jobs import JobFilter
from jobstore.protocol import Finish, JobStore, Settled
from jobstore.retention import Ages
from tests.contract.asking import FAR, LANES, LONG_AGO_S, WEIGHTS, Request, numbers, requests, route
from tests.contract.comparing import Places, fields, plain_fields
from tests.contract.making import new_job, new_worker, pictures
from tests.contract.plain.job import PlainJob, Refused
from tests.contract.watching import Watched

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
PROFILE = settings(
    max_examples=2000 if LONG else 30,
    stateful_step_count=60 if LONG else 30,
    deadline=None,
    derandomize=not LONG,  # the suite tries the same lives every time, HYPOTHESIS_PROFILE=long ever others
    suppress_health_check=list(HealthCheck),
)

WORKERS = tuple(new_worker(*LANES) for _ in range(2))
GPU = Decimal("0.5")
CODES = ("render_failed", "deadline_exceeded")


class Lives(Watched):
    """Clients and workers that act at random."""

    # Clients

    @rule(requests=st.lists(requests, min_size=1, max_size=3))
    def submit(self, requests: list[Request]) -> None:
        """One of four pictures, two in each lane."""
        for request in requests:
            self._submit(request)

    def _submit(self, asked: Request) -> None:
        late_s = LONG_AGO_S if asked.late else None
        new = new_job(
            f"f{asked.which}",
            lane=LANES[asked.which % 2],
            width=64 * (1 + asked.which // 2),
            price=asked.price,
            key_id=asked.key_id,
            weight=WEIGHTS[asked.key_id],
            cache=asked.cache,
            priority=asked.priority,
            format=asked.format,
            max_attempts=asked.max_attempts,
            replay=asked.replay,
            start_at=datetime.now(UTC) + FAR if asked.later else None,
            deadline_s=late_s if self.deadline == "deadline_s" else None,
            start_deadline_s=late_s if self.deadline == "start_deadline_s" else None,
        )
        new = replace(
            new, fallbacks=tuple(route(new.request, asked.which + step) for step in range(1, asked.routes + 1))
        )
        found = self.plain.cached.get(new.fingerprint, ()) if asked.look and asked.cache.reads else ()
        answers = self.each(lambda store: store.submit(new, found))
        known = {answer.expected_s for answer in answers if isinstance(answer, Job)}
        job = self._accepted(new, found, max(known, default=1.0))
        if isinstance(job, str):
            assert answers == [job] * len(answers)
            return
        assert len(known) == 1
        if job.id == new.id:
            self.ids.append(job.id)
        for answer in answers:
            assert isinstance(answer, Job), answer
            assert answer.id == job.id
            assert fields(answer) == plain_fields(job)
            assert answer.queue_position == self.plain.position(job)

    def _accepted(self, new: NewJob, found: tuple[Picture, ...], expected_s: float) -> PlainJob | str:
        """The plain store's job, or the name of its error."""
        try:
            return self.plain.submit(new, found, expected_s)
        except Refused as refused:
            return str(refused)

    @precondition(lambda self: self.ids)
    @rule(place=numbers)
    def cancel(self, place: int) -> None:
        """Any job, ended or not."""
        job_id = self.ids[place % len(self.ids)]
        ring = self.plain.cancel(job_id)
        self._settled(self.each(lambda store: store.cancel(job_id)), job_id, ring)

    @precondition(lambda self: self.ids)
    @rule(place=numbers)
    def retry(self, place: int) -> None:
        """A failed or dead job, where there is one; others are refused."""
        ids = [job.id for job in self.plain.dead_letters()] or self.ids
        job_id = ids[place % len(ids)]
        answers = self.each(lambda store: store.retry(job_id))
        if ids is self.ids:
            assert answers == ["IllegalTransitionError"] * 2
        else:
            self._settled(answers, job_id, self.plain.retry(job_id))

    @precondition(lambda self: self.plain.dead_letters())
    @rule(limit=st.integers(1, 3), state=st.sampled_from([JobState.FAILED, JobState.DEAD]))
    def redrive(self, limit: int, state: JobState) -> None:
        """Those that ended first; where several ended in one moment, nobody knows which that is."""
        letters = [job for job in self.plain.dead_letters() if job.state is state]
        moments = Counter(job.ended for job in letters)
        if any(count > 1 for count in moments.values()):
            return
        redriven = self.each(lambda store: store.redrive(JobFilter(states=(state,)), limit))
        rings = [lane for job in letters[:limit] for lane in self.plain.retry(job.id)]
        for answer in redriven:
            assert not isinstance(answer, str), answer
            assert list(answer.job_ids) == [job.id for job in letters[:limit]]
            assert sorted(answer.ring) == sorted(rings)

    # Workers

    @rule(
        worker=st.sampled_from(WORKERS),
        lanes=st.sampled_from([LANES, LANES[:1], LANES[1:]]),
        prefer=st.sampled_from([None, "64", "128"]),
    )
    def claim(self, worker: Any, lanes: tuple[str, ...], prefer: str | None) -> None:
        """The same job on every store."""
        leases = self.each(lambda store: store.claim(worker, lanes, prefer))
        job = self.plain.claim(worker.id, lanes, prefer)
        if job is None:
            assert leases == [None] * len(leases)
            return
        tokens = []
        for lease in leases:
            assert lease is not None and not isinstance(lease, str), lease
            assert lease.job.id == job.id
            assert fields(lease.job) == plain_fields(job)
            tokens.append(lease.token)
        self.tokens.append(tuple(tokens))

    @precondition(lambda self: self.plain.leases())
    @rule(place=numbers, cache=st.sampled_from([CacheOutcome.MISS, CacheOutcome.MISS, CacheOutcome.HIT]))
    def finish(self, place: int, cache: CacheOutcome) -> None:
        """Rendered, or found."""
        token, job = self._lease(place)
        done = pictures(job.id, token, 1, job.new.request.format) if job else ()
        result = Finish(pictures=done, gpu_seconds=GPU, device="cpu", cache=cache)
        ring = self.plain.finish(job, done, cache, GPU) if job else []
        self._fenced(token, job, lambda store, real: store.finish(real, result), ring)

    @precondition(lambda self: self.plain.leases())
    @rule(place=numbers, code=st.sampled_from(CODES), retry_in_s=st.sampled_from([None, 0, 0, 3600]))
    def fail(self, place: int, code: str, retry_in_s: float | None) -> None:
        """For all that wait, or for the leader alone; for good, or to be tried again."""
        token, job = self._lease(place)
        error = JobError(code=code, message="x")
        ring = self.plain.fail(job, code, retry_in_s, GPU) if job else []
        self._fenced(token, job, lambda store, real: store.fail(real, error, retry_in_s, self._spent()), ring)

    @precondition(lambda self: len(self.tokens) > 1)
    @rule(place=numbers, asked=st.booleans())
    def stop(self, place: int, asked: bool) -> None:
        """As the client asked, or gracefully; under any token, old ones too."""
        token, job = self._lease(place)
        end = self.plain.canceled if asked else self.plain.release
        ring = end(job, GPU) if job else []

        async def stop(store: JobStore, real: int) -> Settled | None:
            return await (store.canceled if asked else store.release)(real, self._spent())

        self._fenced(token, job, stop, ring)

    def _spent(self) -> Spent:
        return Spent(gpu_seconds=GPU, device="cpu")

    def _lease(self, place: int) -> tuple[int, PlainJob | None]:
        """One of the last tokens, mostly held ones."""
        held = self.plain.leases()
        token = held[place % len(held)] if held and place % 5 else 1 + place % (len(self.tokens) - 1)
        return token, self.plain.under(token)

    def _fenced(
        self,
        token: int,
        job: PlainJob | None,
        call: Callable[[JobStore, int], Awaitable[Settled | None]],
        ring: list[str],
    ) -> None:
        real = dict(zip(self.places.stores, self.tokens[token], strict=True))
        answers = self.each(lambda store: call(store, real[store]))
        if job is None:
            assert answers == [None] * len(answers)
        else:
            self._settled(answers, job.id, ring)

    def _settled(self, answers: list[Any], job_id: UUID, ring: list[str]) -> None:
        for answer in answers:
            assert isinstance(answer, Settled), answer
            assert fields(answer.job) == plain_fields(self.plain.jobs[job_id])
            assert sorted(answer.ring) == sorted(ring)

    # Any process

    @rule(lost=st.booleans(), ring_again=st.booleans())
    def sweep(self, lost: bool, ring_again: bool) -> None:
        """With all leases lost, or none."""
        lease_s, ring_again_s = (0.0 if now else 3600.0 for now in (lost, ring_again))
        swept = self.each(lambda store: store.sweep(lease_s=lease_s, ring_again_s=ring_again_s, max_rescues=2))
        ring, done = self.plain.sweep(lost=lost, ring_again=ring_again, max_rescues=2)
        for answer in swept:
            assert not isinstance(answer, str), answer
            counts = {name: getattr(answer, name) for name in done if name != "sent on"}
            assert counts | {"sent on": len(answer.fallbacks)} == done
            assert sorted(answer.ring) == sorted(ring)

    @rule(what=st.sampled_from(["beat", "archive", "pause", "resume", "resume"]), place=st.integers(0, 1))
    def go_on(self, what: str, place: int) -> None:
        """What changes no job."""
        getattr(self, f"_{what}")(place)

    def _beat(self, place: int) -> None:
        worker = WORKERS[place]
        held = self.plain.held(worker.id)
        for index, answer in enumerate(self.each(lambda store: store.beat(worker))):
            assert not isinstance(answer, str), answer
            real = {(lease.token, lease.job_id, lease.cancel_requested) for lease in answer.held}
            assert real == {(self.tokens[token][index], job_id, cancel) for token, job_id, cancel in held}

    def _archive(self, _place: int) -> None:
        # With a job that is archived, a minute after its end, PostgreSQL forgets what its key has had (fairness.md).
        if not self.plain.debt():
            self.each(lambda store: store.purge(Ages()))

    def _pause(self, place: int) -> None:
        self.plain.pause(LANES[place])
        self.each(lambda store: store.pause_lane(LANES[place]))

    def _resume(self, place: int) -> None:
        ring = self.plain.resume(LANES[place])
        assert self.each(lambda store: store.resume_lane(LANES[place])) == [tuple(ring)] * 2


@pytest.fixture
def both(database: str, sqlite_url: str, request: pytest.FixtureRequest) -> Iterator[Places]:
    """Both stores, open, and moving away what has ended whenever they are asked to purge."""
    request.getfixturevalue("archive_at_once")
    with asyncio.Runner() as runner:
        # Nothing here is to survive a crash: what waits for the disk only takes time.
        opened = Places(runner, f"{database}&options=-csynchronous_commit%3Doff", sqlite_url)
        yield opened
        opened.run(lambda store: store.close())


def test_stores_live_as_the_plain_one_does(both: Places) -> None:
    """Whatever clients and workers do, in whatever order."""
    machine = type("Machine", (Lives,), {"places": both})
    run_state_machine_as_test(machine, settings=PROFILE)
