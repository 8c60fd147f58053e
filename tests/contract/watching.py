"""Stores beside the plain one: after each step all of them tell the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
)

from jobstore.errors import JobStoreError
from jobstore.job import (
    Job,
    JobState,
)
from jobstore.operating.jobs import JobFilter
from jobstore.protocol import JobStore
from tests.contract.asking import KEYS
from tests.contract.comparing import Places, fields, plain_fields, plain_row_fields, row_fields
from tests.contract.plain.store import PlainStore

T = TypeVar("T")


class Watched(RuleBasedStateMachine):
    """The stores and the plain one, and what holds after whatever is done to all of them."""

    places: Places

    @initialize(deadline=st.sampled_from(["deadline_s", "start_deadline_s"]))
    def begin(self, deadline: str) -> None:
        """With nothing. Of late jobs there is one kind a life: stores may end one kind before the other."""
        self.deadline = deadline
        self.places.clear()
        self.plain = PlainStore()
        self.ids: list[UUID] = []
        self.tokens: list[tuple[int, ...]] = [()]  # by the plain store's token: the real ones
        self.events = [0] * len(self.places.stores)
        self.told: list[dict[UUID, list[tuple[str, int]]]] = [{} for _ in self.places.stores]
        self.booked: Counter[UUID] = Counter()
        self.terminal: dict[UUID, tuple[JobState, int]] = {}

    def each(self, call: Callable[[JobStore], Awaitable[T]]) -> list[T | str]:
        """What every store answers, an error by its name."""

        async def answer(store: JobStore) -> T | str:
            try:
                return await call(store)
            except JobStoreError as error:
                return type(error).__name__

        return self.places.run(answer)

    # What holds after each step

    @invariant()
    def all_tell_the_same(self) -> None:
        """Jobs, balances, events, the ledger and the queue."""
        if not hasattr(self, "plain"):
            return
        expected = {job_id: plain_fields(job) for job_id, job in self.plain.jobs.items()}
        for page in self.each(lambda store: store.list_jobs(JobFilter(limit=200))):
            assert not isinstance(page, str)
            assert [job.id for job in page.jobs] == self.ids[::-1]
            for job in page.jobs:
                assert fields(job) == expected[job.id], job.id
        self._compare_events()
        self._compare_usage()
        self._compare_money()
        self._compare_places()

    def _compare_events(self) -> None:
        real = dict(zip(self.places.stores, self.events, strict=True))
        for index, fresh in enumerate(self.each(lambda store: store.events_since(real[store]))):
            for event in fresh:
                assert not isinstance(event, str)
                told = self.told[index].setdefault(event.job_id, [])
                told.append((event.data["state"], event.data["attempt"]))
                assert (event.kind == "done") == JobState(event.data["state"]).terminal
                self.events[index] = event.seq
            assert self.told[index] == {job.id: job.events for job in self.plain.jobs.values()}

    def _compare_usage(self) -> None:
        for job in self.plain.jobs.values():
            if self.booked[job.id] == len(job.usage):
                continue
            self.booked[job.id] = len(job.usage)
            job_id = job.id
            for index, rows in enumerate(self.places.run(lambda store: store.usage(job_id))):  # noqa: B023 - called at once
                tokens = [None if row.token is None else self.tokens[row.token][index] for row in job.usage]
                plain = [plain_row_fields(row, token) for row, token in zip(job.usage, tokens, strict=True)]
                assert [row_fields(row) for row in rows] == plain
                assert {(row.key_id, row.lane) for row in rows} <= {
                    (job.new.key_id, lane) for lane in (job.lane, *job.been)
                }

    def _compare_money(self) -> None:
        jobs = self.plain.jobs.values()
        assert sum(job.charged for job in jobs) == sum(row.charged for job in jobs for row in job.usage)
        key_id = KEYS[1 + self.plain.moments % 2]
        assert key_id is not None
        balance = self.plain.balance(key_id)
        assert min(balance.reserved, balance.charged) >= 0
        assert self.each(lambda store: store.balance(key_id, "USD")) == [balance] * 2

    def _compare_places(self) -> None:
        queued = [job for job in self.plain.jobs.values() if job.state is JobState.QUEUED]
        if queued:
            job = queued[self.plain.moments % len(queued)]
            for answer in self.each(lambda store: store.get(job.id)):
                assert isinstance(answer, Job)
                assert answer.queue_position == self.plain.position(job)

    @invariant()
    def every_render_has_one_lease(self) -> None:
        """And what has ended stays as it is, unless it is retried."""
        if not hasattr(self, "plain"):
            return
        for job in self.plain.jobs.values():
            assert (job.token is not None) == (job.state is JobState.RUNNING and job.leader is None)
            before = self.terminal.get(job.id)
            if before is not None and before[0] in (JobState.SUCCEEDED, JobState.CANCELED):
                assert (job.state, len(job.events)) == before
            if job.state.terminal:
                self.terminal[job.id] = (job.state, len(job.events))
