"""What keeps a store well over months: the janitor, and connections that outlive migrations and servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import psycopg
import pytest

from jobstore.janitor import Janitor
from jobstore.outputs import ObjectOutputs, Outputs
from jobstore.postgres import retention
from jobstore.postgres.store import PostgresStore
from jobstore.retention import Ages
from jobstore.shielded import Shielded
from safelight.config import RetentionSettings
from tests.contract.making import new_job, new_worker, rendered


class OneStuck(ObjectOutputs):
    """Outputs with a file that can't be deleted."""

    def __init__(self, whole: Outputs, stuck: str) -> None:
        self._whole = whole
        self._stuck = stuck

    async def delete(self, keys: Sequence[str]) -> None:
        """All but one."""
        if self._stuck in keys:
            raise PermissionError(self._stuck)
        await self._whole.delete(keys)

    def walk(self, prefix: str, older_than_s: float) -> AsyncIterator[Sequence[str]]:
        """What lies there, stuck or not."""
        return self._whole.walk(prefix, older_than_s)


async def test_a_picture_that_cannot_be_deleted_keeps_no_others(
    store: PostgresStore, outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go; it is tried again later, after all others."""
    monkeypatch.setattr(retention, "DOOMED_GRACE_S", 0.0)
    keys = []
    for _ in range(3):
        await store.submit(new_job())
        keys.append((await rendered(store, new_worker())).pictures[0].key)
        await outputs.put(keys[-1], b"picture", "image/png")
    janitor = Janitor(store, OneStuck(outputs, keys[0]), RetentionSettings(outputs_days=0.0, cache_days=0.0))
    await janitor.clean()
    assert [await outputs.exists(key) for key in keys] == [True, False, False]
    assert await store.doomed() == (keys[0],)


async def test_all_that_has_ended_is_put_away_in_one_round(
    store: PostgresStore, outputs: Outputs, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many have ended since the last one."""
    monkeypatch.setattr(retention, "ARCHIVE_AFTER_S", 0.0)
    monkeypatch.setattr("jobstore.janitor._LIMIT", 2)
    for _ in range(7):
        await store.submit(new_job())
        await rendered(store, new_worker())
    await Janitor(store, outputs, RetentionSettings()).clean()
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM job").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM job_archive").fetchone() == (7,)


async def test_the_young_are_found_by_an_index(store: PostgresStore, database: str) -> None:
    """A purge that has nothing to do reads nothing, however much there is."""
    assert (await store.purge(Ages(jobs=3600, events=3600, outputs=3600, cache=3600, usage=3600))).most == 0
    query = "EXPLAIN SELECT id FROM job_archive WHERE finished_at < statement_timestamp() - interval '1 hour'"
    with psycopg.connect(database) as connection:
        connection.execute("SET enable_seqscan = off")
        plan = "\n".join(row[0] for row in connection.execute(query).fetchall())
    assert "Index Cond" in plan
    for text in (value for name, value in vars(retention).items() if name.startswith("_") and isinstance(value, str)):
        assert "< clock_timestamp()" not in text


async def test_a_migration_beneath_does_not_stop_a_process(store: PostgresStore, database: str) -> None:
    """Its prepared statements are made anew."""
    for _ in range(8):
        await store.submit(new_job())
        await rendered(store, new_worker())
    with psycopg.connect(database) as connection:
        connection.execute("ALTER TABLE job ADD COLUMN later integer")
    for _ in range(3):
        await store.submit(new_job())
        await rendered(store, new_worker())


async def test_work_that_never_ends_does_not_keep_a_process_from_stopping() -> None:
    """It is broken off."""
    shielded = Shielded()
    waiting = asyncio.create_task(shielded.run(asyncio.Event().wait()))
    await asyncio.sleep(0)
    await shielded.drain(limit_s=0.01)
    with pytest.raises(asyncio.CancelledError):
        await waiting
