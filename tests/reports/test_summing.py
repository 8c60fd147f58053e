"""Which hours are summed up, when, and by whom."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from jobstore.janitor import Janitor
from jobstore.outputs import Outputs
from jobstore.postgres import rollup
from jobstore.postgres.columns import Connection, every, sole
from jobstore.postgres.store import PostgresStore
from jobstore.quotas import zones
from jobstore.reports.days import day_start
from safelight.config import RetentionSettings
from tests.reports.by_hand import asked
from tests.reports.ledger import Attempt, insert, write

DAY = timedelta(days=1)
EVERYTHING = 10_000
NOON = datetime(2026, 11, 10, 12, tzinfo=UTC)


@contextmanager
def writing(url: str, attempts: Sequence[Attempt]) -> Iterator[psycopg.Connection]:
    """A transaction that has written these, and is open."""
    with psycopg.connect(url) as connection:
        insert(connection, attempts)
        yield connection


async def until(store: PostgresStore) -> datetime:
    """Before which instant hours are summed up now, were they as short as an instant."""
    query = rollup._UNTIL.replace("'hour'", "'microseconds'")
    row: dict[str, datetime] = await store.on_connection(lambda c: sole(c, query, {}))
    return row["until"]


async def fetched(connection: Connection, query: str) -> list[dict[str, Any]]:
    """All rows."""
    return await every(connection, query, {})


async def test_no_hour_is_summed_up_that_a_writer_may_still_add_to(store: PostgresStore, database: str) -> None:
    """What is committed after the summing has its hour to itself: hours end before the oldest writer began."""
    before = await until(store)
    with writing(database, [Attempt(datetime.now(UTC))]) as connection:
        [(began,)] = connection.execute(
            "SELECT xact_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        ).fetchall()
        assert await until(store) == began - timedelta(minutes=1) > before
        with psycopg.connect(database) as reader:  # who only reads holds nothing up
            reader.execute("SELECT count(*) FROM usage")
            assert await until(store) == began - timedelta(minutes=1)
    assert await until(store) > began - timedelta(minutes=1)


async def test_what_is_written_at_once_takes_nothing_back(store: PostgresStore, database: str) -> None:
    """Only what comes a minute late, or is changed, is told to the hours: settling a job costs no more than before."""
    now = datetime.now(UTC)
    write(database, [Attempt(now), Attempt(now - timedelta(seconds=30))])
    query = "SELECT count(*) AS n FROM usage_hour"
    assert await store.on_connection(lambda c: fetched(c, query)) == [{"n": 0}]
    write(database, [Attempt(now - timedelta(seconds=70)), Attempt(now - timedelta(seconds=70))])
    assert await store.on_connection(lambda c: fetched(c, query)) == [{"n": 1}]


async def test_the_janitor_sums_up_what_is_over_and_the_hour_of_now_is_left(
    store: PostgresStore, outputs: Outputs, database: str
) -> None:
    """Each hour once, by one process at a time."""
    now = datetime.now(UTC)
    write(database, [Attempt(now - timedelta(hours=hours), charged=Decimal(1)) for hours in range(50)])
    janitor = Janitor(store, outputs, RetentionSettings())
    await asyncio.gather(janitor.sum_up(), janitor.sum_up())
    await janitor.sum_up()
    [sums] = await store.on_connection(lambda c: fetched(c, "SELECT sum(charged) AS n FROM usage_by_owner"))
    assert sums["n"] in (49, 48), "the first minutes of an hour leave the one before it too"
    assert await store.roll_up() == 0
    report = await store.costs(asked(first=(now - 3 * DAY).date(), last=(now + DAY).date()))
    assert report.totals[0].charged == 50


async def test_hours_with_many_rows_are_summed_up_one_by_one(
    store: PostgresStore, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No transaction takes long."""
    monkeypatch.setattr(rollup, "_ENOUGH", 3)
    write(database, [Attempt(NOON + timedelta(hours=n // 4)) for n in range(12)])
    assert [await store.roll_up(3) for _ in range(3)] == [1, 1, 1]


async def test_a_row_that_comes_late_is_waited_for_a_moment_only(store: PostgresStore, database: str) -> None:
    """The next round finds it."""
    with writing(database, [Attempt(NOON)]):
        write(database, [Attempt(NOON - timedelta(hours=5))])
        assert await store.roll_up(EVERYTHING) == 0
        assert (await store.costs(asked())).totals[0].attempts == 1
    assert (await store.costs(asked())).totals[0].attempts == 2


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "Australia/Adelaide", "Pacific/Chatham"])
async def test_a_day_that_begins_within_an_hour_has_its_own_rows(
    store: PostgresStore, database: str, zone: str
) -> None:
    """Of the hour that midnight cuts, each part is in its day."""
    midnight = day_start(NOON.date(), zone)
    assert midnight.minute
    assert zone in zones()
    write(database, [Attempt(midnight - timedelta(seconds=1)), Attempt(midnight, charged=Decimal(5))])
    await store.roll_up(EVERYTHING)
    report = await store.costs(asked(zone=zone, by=("day",)))
    assert [row.charged for row in report.rows] == [Decimal("0.002"), Decimal(5)]


async def test_emptying_the_ledger_empties_the_reports(store: PostgresStore, database: str) -> None:
    """By TRUNCATE too; there is no hour to sum up where there never was a row."""
    assert await store.roll_up(EVERYTHING) == 0
    write(database, [Attempt(NOON)])
    await store.roll_up(EVERYTHING)
    with psycopg.connect(database) as connection:
        connection.execute("TRUNCATE usage")
    assert (await store.costs(asked())).totals == ()
