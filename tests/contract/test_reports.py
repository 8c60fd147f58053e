"""Reports of costs and times: sums to the last decimal, days as a zone counts them, and one line for the rest."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobstore.ids import uuid7
from jobstore.job import CacheOutcome, JobError
from jobstore.ledger import Spent
from jobstore.protocol import JobStore
from jobstore.registry import open_store
from jobstore.reports.model import CostReport, LatencyRow, ReportQuery, Where
from tests.contract.keying import make_key
from tests.contract.making import PRICE, claimed, new_job, new_worker, pictures, result
from tests.reports.by_hand import asked, by_hand
from tests.reports.ledger import ATTEMPTS, ZONES, Attempt, clear, write

NOON = datetime(2026, 11, 10, 12, tzinfo=UTC)
LATENCY_S = (5, 1, 4, 2, 3, 10, 9, 8, 7, 6)


@pytest.fixture(params=["postgresql", "sqlite"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty store."""
    return str(request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "database"))


def recently(**changes: Any) -> ReportQuery:
    """A query for now."""
    today = datetime.now(UTC).date()
    return asked(first=today - timedelta(days=1), last=today + timedelta(days=1), **changes)


async def told(url: str, query: ReportQuery) -> CostReport:
    """The report of a store of its own."""
    store = open_store(url)
    await store.open()
    try:
        return await store.costs(query)
    finally:
        await store.close()


@given(
    attempts=st.lists(ATTEMPTS, min_size=1, max_size=30),
    zone=st.sampled_from(ZONES),
    first=st.dates(date(2026, 3, 1), date(2026, 11, 5)),
    days=st.integers(0, 250),
)
@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_sums_agree_with_the_ledger_in_every_zone(
    url: str, attempts: list[Attempt], zone: str, first: date, days: int
) -> None:
    """Day by day, over days of 23, 23.5, 24.5 and 25 hours; whatever stands in one line, nothing is left out."""
    clear(url)
    write(url, attempts)
    query = asked(first=first, last=first + timedelta(days=days), zone=zone, by=("day", "model", "dim:experiment"))
    report = asyncio.run(told(url, query))
    expected = by_hand(attempts, query)
    assert {(*(value or "" for value in row.values), row.currency): row for row in report.rows} == expected
    assert not report.rest
    for total in report.totals:
        assert total.charged == sum(row.charged for row in expected.values() if row.currency == total.currency)
    short = asyncio.run(told(url, asked(first=query.first, last=query.last, zone=zone, by=query.by, limit=2)))
    assert short.totals == report.totals
    assert len(short.rows) == min(2, len(report.rows))
    assert {row.currency for row in short.rest} <= {"USD", "EUR"}


async def test_a_report_tells_of_what_was_rendered_found_joined_and_lost(store: JobStore) -> None:
    """Straight after each settlement, through the store's own doors."""
    key_id = uuid7()
    worker = new_worker()
    first = await store.submit(new_job("f", key_id=key_id, team="ads", n=2))
    joined = await store.submit(new_job("f", key_id=key_id, team="ads", n=2))
    lease = await claimed(store, worker)
    await store.fail(
        lease.token,
        JobError(code="x", message="x"),
        retry_in_s=0,
        spent=Spent(gpu_seconds=Decimal("1.25"), device="cpu"),
    )
    lease = await claimed(store, worker)
    await store.finish(lease.token, result(lease))
    hit = new_job("f", key_id=key_id, team="ads", n=2)
    await store.submit(hit, pictures(hit.id, 1, 2))
    query = recently(by=("cache", "device", "key"))
    report = await store.costs(query)
    rows = {row.values[0]: row for row in report.rows if row.charged or row.saved}
    assert {name: (row.jobs, row.attempts, row.pictures, row.saved) for name, row in rows.items()} == {
        "miss": (1, 2, 2, 0),
        "joined": (1, 1, 2, PRICE),
        "hit": (1, 1, 2, PRICE),
    }
    assert (rows["miss"].charged, rows["miss"].gpu_seconds) == (PRICE, Decimal("1.75"))
    assert (rows["hit"].values, rows["miss"].values) == (("hit", None, str(key_id)), ("miss", "cpu", str(key_id)))
    assert report.totals[0].charged == (await store.get(first.id)).charged + (await store.get(joined.id)).charged
    times = await store.latency(query)
    assert {row.values[0]: row.jobs for row in times.rows} == {"miss": 1, "joined": 1}
    assert times.total is not None
    assert 0 <= times.total.p50_s <= times.total.p90_s < 60


async def test_summing_up_changes_no_report(url: str) -> None:
    """A store may read sums instead of rows: of all that is over, and of what comes late."""
    write(url, [Attempt(NOON, wanted_at=NOON - timedelta(seconds=n), team=f"t{n % 3}") for n in range(1, 8)])
    store = open_store(url)
    await store.open()
    try:
        for query in (asked(by=("day", "team")), asked(by=("device",), where=Where(model="m")), asked(by=("dim:x",))):
            await store.forget_sums()
            before = await store.costs(query), await store.latency(query)
            while await store.roll_up(1_000):
                pass
            assert (await store.costs(query), await store.latency(query)) == before
        write(url, [Attempt(NOON)])
        assert (await store.costs(asked())).totals[0].attempts == 8
    finally:
        await store.close()


async def test_currencies_are_never_added_up(url: str) -> None:
    """Each has its own rows, its own rest and its own total."""
    write(url, [Attempt(NOON, currency=currency, model=model) for currency in ("USD", "EUR") for model in "abc"])
    report = await told(url, asked(by=("model",), limit=1))
    assert [(row.currency, row.jobs, row.charged) for row in report.rest] == [
        ("EUR", 2, Decimal("0.004")),
        ("USD", 3, Decimal("0.006")),
    ]
    assert [(row.currency, row.charged) for row in report.totals] == [
        ("EUR", Decimal("0.006")),
        ("USD", Decimal("0.006")),
    ]


async def test_filters_hold_together(url: str) -> None:
    """A row counts where everything that is named holds."""
    key_id = uuid7()
    wanted = Attempt(
        NOON, key_id=key_id, team="ads", customer="acme", lane="fast", cache="joined", device="cuda:1",
        dimensions=(("experiment", "a"),),
    )  # fmt: skip
    where: dict[str, Any] = {
        "key_id": key_id, "team": "ads", "customer": "acme", "model": "m", "lane": "fast", "device": "cuda:1",
        "cache": CacheOutcome.JOINED, "dimensions": {"experiment": "a"},
    }  # fmt: skip
    write(url, [wanted, Attempt(NOON, team="shop", model="n", device="cpu", dimensions=(("experiment", "b"),))])
    for name, value in where.items():
        [row] = (await told(url, asked(where=Where(**{name: value})))).rows
        assert row.jobs == 1, name
    [row] = (await told(url, asked(where=Where(**where)))).rows
    assert row.saved == wanted.price
    assert (await told(url, asked(where=Where(team="ads", model="n")))).rows == ()
    assert (await told(url, asked(where=Where(dimensions={'"experiment': "a"})))).rows == ()


async def test_days_come_in_order_and_other_rows_by_their_cost(url: str) -> None:
    """What a chart and a table want."""
    write(url, [Attempt(NOON + timedelta(days=day), charged=Decimal(3 - day), team=f"t{day}") for day in range(3)])
    by_day = await told(url, asked(by=("day",)))
    assert [row.values for row in by_day.rows] == [("2026-11-10",), ("2026-11-11",), ("2026-11-12",)]
    by_team = await told(url, asked(by=("team",)))
    assert [row.values[0] for row in by_team.rows] == ["t0", "t1", "t2"]


async def test_keys_are_told_with_their_names(store: JobStore) -> None:
    """Of a key that nobody knows, the id alone."""
    await make_key(store, "ads backend")
    [key] = await store.list_keys()
    for key_id in (key.id, uuid7()):
        await store.submit(new_job(key_id=key_id))
        lease = await claimed(store, new_worker())
        await store.finish(lease.token, result(lease))
    today = datetime.now(UTC).date()
    report = await store.costs(
        ReportQuery(first=today - timedelta(days=1), last=today + timedelta(days=1), by=("key",))
    )
    assert len(report.rows) == 2
    assert report.names == {str(key.id): "ads backend"}


async def test_percentiles_are_times_that_jobs_took(url: str) -> None:
    """By nearest rank; hits and what failed took none."""
    write(
        url,
        [
            *(Attempt(NOON, wanted_at=NOON - timedelta(seconds=took), model="a") for took in LATENCY_S),
            Attempt(NOON, wanted_at=NOON - timedelta(seconds=60), model="b"),
            Attempt(NOON, cache="hit", model="b"),
            Attempt(NOON, outcome="failed", model="b"),
        ],
    )
    store = open_store(url)
    await store.open()
    try:
        report = await store.latency(asked(by=("model", "day")))
        short = await store.latency(asked(by=("model",), limit=1))
        nothing = await store.latency(asked(first=date(2026, 1, 1), last=date(2026, 1, 2), by=("model",)))
    finally:
        await store.close()
    assert report.rows == (
        LatencyRow(values=("a", "2026-11-10"), jobs=10, p50_s=5.0, p90_s=9.0),
        LatencyRow(values=("b", "2026-11-10"), jobs=1, p50_s=60.0, p90_s=60.0),
    )
    assert report.total == LatencyRow(values=(), jobs=11, p50_s=6.0, p90_s=10.0)
    assert ([row.values for row in short.rows], short.rest) == ([("a",)], 1)
    assert (nothing.rows, nothing.rest, nothing.total) == ((), 0, None)


async def test_a_scheduled_job_counts_from_its_start_on(store: JobStore) -> None:
    """Nobody waits for it before."""
    await store.submit(new_job(start_at=datetime.now(UTC) - timedelta(hours=5)))
    lease = await claimed(store, new_worker())
    await store.finish(lease.token, result(lease))
    report = await store.latency(recently())
    assert report.total is not None
    assert report.total.p90_s < 3600, "it was submitted a moment ago"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"by": ("day", "model", "team", "key")}, "by"),
        ({"by": ("day", "day")}, "by"),
        ({"by": ("colour",)}, "by"),
        ({"by": ("dim:Not Allowed",)}, "by"),
        ({"zone": "Mars/Olympus"}, "zone"),
        ({"first": date(2027, 1, 1)}, "to"),
        ({"first": date(2020, 1, 1)}, "to"),
        ({"first": date(1, 1, 1), "last": date(1, 1, 2)}, "from"),
        ({"limit": 0}, "limit"),
        ({"limit": 5001}, "limit"),
    ],
)
async def test_what_can_not_be_answered_is_refused(store: JobStore, changes: dict[str, Any], field: str) -> None:
    """By the field's name, before the ledger is read."""
    for report in (store.costs, store.latency):
        with pytest.raises(ValueError, match=f"^{field} "):
            await report(asked(**changes))
