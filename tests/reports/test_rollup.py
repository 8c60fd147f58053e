"""Sums by hours: reports tell the same with them as without, whatever is written, changed and deleted, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboards.sql.install import install
from jobstore.postgres.sources import arguments, spans
from jobstore.postgres.store import PostgresStore
from jobstore.retention import Ages
from tests.reports.by_hand import asked, by_hand, times_by_hand
from tests.reports.ledger import ATTEMPTS, ZONES, Attempt, clear, insert, write

WHOLE_YEAR = 10_000
DAY = timedelta(days=1)
NOON = datetime(2026, 11, 10, 12, tzinfo=UTC)
TIMED = st.builds(
    lambda attempt, took_ms: replace(attempt, wanted_at=attempt.at - timedelta(milliseconds=took_ms)),
    ATTEMPTS,
    st.integers(0, 5_000),
)
SOME = st.lists(st.one_of(ATTEMPTS, TIMED), min_size=1, max_size=6)
# What happens to a ledger, one after the other. An open transaction ends with a later "commit" or "rollback", if ever.
STEPS: st.SearchStrategy[list[tuple[str, list[Attempt]]]] = st.lists(
    st.one_of(
        st.tuples(st.just("write"), SOME),
        st.tuples(st.just("open"), SOME),
        st.tuples(
            st.sampled_from(["sum up", "sum up", "commit", "rollback", "purge", "change", "forget"]), st.just([])
        ),
    ),
    min_size=2,
    max_size=8,
)
MOVED = timedelta(minutes=90)
# Days before those on which clocks change in some of ZONES.
STARTS = st.sampled_from(["2026-03-07", "2026-03-28", "2026-04-04", "2026-04-23", "2026-10-03", "2026-10-24"]).map(
    lambda day: datetime.fromisoformat(f"{day}T00:00:00+00:00")
)


def near(start: datetime, some: Sequence[Attempt]) -> list[Attempt]:
    """The attempts within three days from then on."""
    moved = [(one, start - one.at + timedelta(seconds=one.at.timestamp() % (3 * 86_400))) for one in some]
    return [replace(one, at=one.at + by, wanted_at=one.wanted_at and one.wanted_at + by) for one, by in moved]


class Ledger:
    """A ledger, and what must be in it."""

    def __init__(self, url: str, store: PostgresStore, middle: datetime) -> None:
        self._url = url
        self._middle = middle
        self._store = store
        self._open: psycopg.Connection | None = None
        self._pending: list[Attempt] = []
        self.attempts: list[Attempt] = []

    async def step(self, what: str, some: list[Attempt]) -> None:
        """Do one of STEPS. Where a transaction is open, nothing that would wait for it."""
        if what == "write":
            await asyncio.to_thread(write, self._url, some) if self._open is None else None
            self.attempts += some if self._open is None else []
        elif what == "open" and self._open is None:
            self._open, self._pending = psycopg.connect(self._url), some
            insert(self._open, some)
        elif what in ("commit", "rollback"):
            self.end(keep=what == "commit")
        elif what == "sum up":
            await self._store.roll_up(WHOLE_YEAR)
        elif what == "forget" and self._open is None:
            await self._store.forget_sums()
        elif what == "purge" and self._open is None:
            await self._store.purge(Ages(usage=(datetime.now(UTC) - self._middle).total_seconds()))
            self.attempts = [one for one in self.attempts if one.at >= self._middle]
        elif what == "change" and self._open is None:
            self._change()

    def end(self, *, keep: bool) -> None:
        """End the open transaction, if there is one."""
        if self._open is not None:
            self._open.commit() if keep else self._open.rollback()
            self._open.close()
            self.attempts += self._pending if keep else []
            self._open = None

    def _change(self) -> None:
        """By hand, as nobody should."""
        with psycopg.connect(self._url) as connection:
            connection.execute(
                "UPDATE usage SET at = at + interval '90 minutes', charged = charged + 1 WHERE team = 'ads'"
            )
        self.attempts = [
            replace(one, at=one.at + MOVED, charged=one.charged + 1, wanted_at=one.wanted_at)
            if one.team == "ads"
            else one
            for one in self.attempts
        ]


@given(steps=STEPS, zone=st.sampled_from(ZONES), start=STARTS)
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_reports_are_the_ledgers_sums_at_every_moment(
    database: str, steps: list[tuple[str, list[Attempt]]], zone: str, start: datetime
) -> None:
    """Summed up at any moment, with transactions open that wrote before and end after it."""
    days: dict[str, Any] = {"first": start.date(), "last": (start + 2 * DAY).date(), "zone": zone}
    query = asked(**days, by=("day", "model", "dim:experiment"))
    timed = asked(**days, by=("dim:experiment", "day"))

    async def run() -> None:
        store = PostgresStore(database, max_connections=2)
        await store.open()
        ledger = Ledger(database, store, start + DAY)
        try:
            for what, some in [*steps, ("sum up", []), ("commit", []), ("sum up", [])]:
                await ledger.step(what, near(start, some))
                report = await store.costs(query)
                told = {(*(value or "" for value in row.values), row.currency): row for row in report.rows}
                assert told == by_hand(ledger.attempts, query), what
                times = await store.latency(timed)
                assert {row.values: row for row in times.rows} == times_by_hand(ledger.attempts, timed), what
        finally:
            ledger.end(keep=False)
            await store.close()

    clear(database)
    asyncio.run(run())


@given(before=SOME, after=SOME, zone=st.sampled_from(ZONES), start=STARTS)
@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_views_tell_the_same_of_sums_and_rows(
    views: psycopg.Connection,
    database: str,
    before: list[Attempt],
    after: list[Attempt],
    zone: str,
    start: datetime,
) -> None:
    """Each view, to the last digit: of what is summed up, of what is not, and of both together."""
    clear(database)
    write(database, near(start, before))
    asyncio.run(sum_up(database))
    write(database, near(start, after))
    mixed = told_by(views, zone, start)
    asyncio.run(forget(database))
    assert told_by(views, zone, start) == mixed
    asyncio.run(sum_up(database))
    assert told_by(views, zone, start) == mixed


VIEWS = (
    "usage_by_day", "cost_by_dimension", "cost_by_key", "batch_efficiency", "latency_by_dimension", "cache_savings",
)  # fmt: skip


@pytest.fixture
def views(database: str) -> Iterator[psycopg.Connection]:
    """A connection to a database with the views."""
    asyncio.run(install(database, None))
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def told_by(connection: psycopg.Connection, zone: str, start: datetime) -> dict[str, list[str]]:
    """The rows of each view, without an order."""
    rows = {}
    for view in VIEWS:
        query = f"SELECT * FROM safelight_report.{view}(%s, %s, %s)"
        days = [zone, start.date(), (start + 2 * DAY).date()]
        rows[view] = sorted(map(str, connection.execute(query.encode(), days).fetchall()))
    return rows


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_the_hours_of_three_years_are_looked_at_a_few_times(database: str, zone: str) -> None:
    """By day: each hour is not held against each day. Counted in rows, which no other work on the machine changes."""
    query = asked(first=date(2024, 1, 1), last=date(2026, 12, 31), zone=zone, by=("day",))
    hours = """
    INSERT INTO usage_hour SELECT hour, true
    FROM generate_series('2023-12-30'::timestamptz, '2027-01-02', interval '1 hour') AS hour
    """
    ask = f"WITH {spans(query)} done AS (SELECT) SELECT (SELECT count(*) FROM whole), (SELECT count(*) FROM gap)"
    with psycopg.connect(database) as connection:
        connection.execute("SET statement_timeout = '20s'")
        written = connection.execute(hours).rowcount
        [row] = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {ask}".encode(), arguments(query)).fetchall()
        # 1,096 days; in Nepal each cuts an hour, of which a gap is left.
        counted = connection.execute(ask.encode(), arguments(query)).fetchone()
    assert counted == ((26_304, 0) if zone == "UTC" else (26_304 - 1_097 + 1, 1_097))
    assert rows_seen(row[0][0]["Plan"]) < 20 * written


def rows_seen(node: dict[str, Any]) -> float:
    """How many rows the nodes of a plan made or left out."""
    own = node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
    return float(own + sum(rows_seen(part) for part in node.get("Plans", ())))


async def sum_up(url: str) -> int:
    """Sum up all there is; how many hours."""
    store = PostgresStore(url, max_connections=2)
    await store.open()
    try:
        return await store.roll_up(WHOLE_YEAR)
    finally:
        await store.close()


async def forget(url: str) -> None:
    """Read the rows themselves from now on."""
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE usage_hour SET summed = false")
