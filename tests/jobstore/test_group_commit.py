"""Which submits are written together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from jobstore.job import CacheOutcome, Job, JobState, NewJob
from jobstore.postgres.intake import Intake
from jobstore.postgres.submit import Accepted
from tests.contract.making import new_job

CLIENTS = 64


class Database:
    """Writes what it is given once it is told to, and keeps how much that was."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.asked = asyncio.Event()
        self.may = asyncio.Event()

    async def write(self, jobs: Sequence[NewJob]) -> list[Accepted]:
        """Wait for leave."""
        self.sizes.append(len(jobs))
        self.asked.set()
        await self.may.wait()
        self.may.clear()
        return [_queued(new) for new in jobs]

    async def turn(self) -> None:
        """Let a transaction end, and what follows happen."""
        await self.asked.wait()
        self.asked.clear()
        self.may.set()
        for _ in range(5):
            await asyncio.sleep(0)


def _queued(new: NewJob) -> Job:
    return Job(
        id=new.id,
        state=JobState.QUEUED,
        request=new.request,
        lane=new.lane,
        batch_key=new.batch_key,
        fingerprint=new.fingerprint,
        seedless_fingerprint=new.seedless_fingerprint,
        cache=CacheOutcome.MISS,
        currency=new.currency,
        reserved=new.price,
        created_at=datetime.now(UTC),
    )


async def _alone(new: NewJob) -> Job:
    raise AssertionError(new)


async def test_clients_that_ask_again_do_not_all_wait_for_one_transaction() -> None:
    database = Database()
    intake = Intake(database.write, _alone, lambda _: None, lambda _: False, at_once=4)
    over = False

    async def client() -> None:
        while not over:
            await intake.submit(new_job())

    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(client())
        for _ in range(20):
            await database.turn()
        over = True
        while any(not task.done() for task in asyncio.all_tasks() if task.get_name() == "intake"):
            await database.turn()
    assert max(database.sizes[5:20]) <= CLIENTS // 2
    assert min(database.sizes[5:20]) >= CLIENTS // 4


async def test_a_lone_submit_is_written_at_once() -> None:
    database = Database()
    intake = Intake(database.write, _alone, lambda _: None, lambda _: False, at_once=4)
    asked = asyncio.create_task(intake.submit(new_job()))
    await database.turn()
    assert isinstance((await asked).id, UUID)
    assert database.sizes == [1]
