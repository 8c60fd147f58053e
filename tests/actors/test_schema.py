"""A schema that a newer release changes under a running worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import structlog

from actors.schema import SchemaWatch
from jobstore.job import JobState
from jobstore.postgres.store import PostgresStore
from tests.actors.harness import Darkroom
from tests.actors.standin import StandInEngine

NEWER = "INSERT INTO schema_migration (version, name, checksum, needs) VALUES (%s, '9999_next', 'x', %s)"


class Listener:
    """In the place of the leases: what they were told."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.told: list[bool] = []

    def outgrow(self, outgrown: bool) -> None:
        """Note it."""
        self.told.append(outgrown)


async def until(probe: Callable[[], bool]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(20):
        while True:
            if probe():
                return
            await asyncio.sleep(0.02)


def newer(database: str, needs: int) -> None:
    """Leave the trace of a newer release's migration."""
    with psycopg.connect(database) as connection:
        connection.execute("DELETE FROM schema_migration WHERE version = 9999")
        connection.execute(NEWER, [9999, needs])


async def test_only_a_schema_without_room_is_told(store: PostgresStore, database: str) -> None:
    """Once, with the reason in the log; and again when there is room."""
    listener: Any = Listener()
    watch = SchemaWatch(store, listener, 60.0)
    newer(database, 1)
    await watch.look()
    assert listener.told == []
    newer(database, 9999)
    with structlog.testing.capture_logs() as logs:
        await watch.look()
        await watch.look()
    assert [entry["action"] for entry in logs] == ["schema.outgrown"]
    assert "9999_next" in logs[0]["reason"]
    newer(database, 1)
    await watch.look()
    assert listener.told == [True, False]


async def test_a_store_that_is_away_says_nothing(database: str) -> None:
    """The beats tell of that."""
    listener: Any = Listener()
    await SchemaWatch(PostgresStore(database), listener, 60.0).look()  # never opened
    assert listener.told == []


async def test_an_outgrown_worker_finishes_what_it_has_and_is_drained(
    room: Darkroom, database: str, standin: StandInEngine
) -> None:
    """It claims nothing more; its command then ends, as after any drain."""
    process = await room.start(slots=2)
    held = await room.submit()
    handle = await asyncio.to_thread(standin.taken, 1)
    newer(database, 9999)
    leases = process._lifespan._leases  # type: ignore[union-attr]
    await until(lambda: leases._drain_asked)
    waiting = await room.submit(seed=2)
    standin.finish(handle)
    assert (await room.wait(held.id)).state is JobState.SUCCEEDED
    await until(lambda: process.drained)
    assert (await room.store.get(waiting.id)).state is JobState.QUEUED
