"""The views for SQL: what they tell, who may read them, and that the documentation's queries run as they stand."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import ceil
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboards.sql.install import ReportsError, install
from jobstore.postgres.store import PostgresStore
from jobstore.quotas import Quota
from safelight.telemetry.secrecy import is_secret
from tests.contract.keying import TESTER
from tests.contract.making import new_job, new_quota
from tests.reports.ledger import ATTEMPTS, ZONES, Attempt, clear, write

DOCS = (Path(__file__).parents[2] / "docs" / "costs.md").read_text("utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", DOCS, re.DOTALL)
VIEWS = (
    "usage_by_day", "cost_by_dimension", "cost_by_key", "batch_efficiency", "latency_by_dimension", "cache_savings",
    "budget_status",
)  # fmt: skip
# As Grafana writes the macros of its PostgreSQL source.
MACROS = {"$__timeFrom()": "'2026-11-01T00:00:00Z'", "$__timeTo()": "'2026-11-30T23:30:00.5Z'"}
NOON = datetime(2026, 11, 10, 12, tzinfo=UTC)


@pytest.fixture
def role() -> str:
    """The name of a role that goes with the test. Its database goes first, and with that what it was granted."""
    return f"reader_{uuid4().hex[:12]}"


@pytest.fixture
def installed(role: str, database: str, postgres_url: str) -> Iterator[str]:
    """The URL of a database with the views."""
    asyncio.run(install(database, role))
    yield database
    with psycopg.connect(database) as connection:
        connection.execute(f"DROP OWNED BY {role}".encode())
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP ROLE {role}".encode())


@pytest.fixture
def reader(installed: str, role: str) -> Iterator[psycopg.Connection]:
    """A connection that may do what the role may."""
    with psycopg.connect(installed, autocommit=True) as connection:
        connection.execute(f"SET ROLE {role}".encode())
        yield connection


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_of_the_documentation_runs_as_it_stands(
    query: str, installed: str, reader: psycopg.Connection
) -> None:
    """By the role that may only read."""
    now = datetime.now(UTC)
    dimensions = (("environment", "live"), ("experiment", "a"))
    write(installed, [Attempt(now, wanted_at=now - timedelta(seconds=4), dimensions=dimensions)])
    for macro, text in MACROS.items():
        query = query.replace(macro, text)
    reader.execute(query.encode())


def test_every_view_says_what_it_is(reader: psycopg.Connection) -> None:
    """In a comment, and in the documentation."""
    comment = "SELECT obj_description(to_regclass(%s), 'pg_class')"
    for view in VIEWS:
        assert reader.execute(comment, [f"safelight_report.{view}"]).fetchone() != (None,), view
        assert f"`{view}`" in DOCS


@pytest.mark.parametrize("table", ["usage", "job", "job_archive", "api_key", "quota", "webhook_endpoint", "audit_log"])
def test_the_role_reads_no_table(reader: psycopg.Connection, table: str) -> None:
    """Nor does it write anything."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        reader.execute(f"SELECT * FROM {table}".encode())
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        reader.execute(b"UPDATE safelight_report.api_key SET name = 'x'")


@pytest.mark.parametrize("view", VIEWS[:-1])
def test_nobody_else_calls_what_reads_the_ledger(installed: str, role: str, view: str) -> None:
    """Not even who may look into the schema."""
    with psycopg.connect(installed) as connection:
        connection.execute(f"CREATE ROLE other_{role}".encode())
        connection.execute(f"GRANT USAGE ON SCHEMA safelight_report TO other_{role}".encode())
        connection.execute(f"SET ROLE other_{role}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SELECT * FROM safelight_report.{view}('UTC', '2026-11-01', '2026-11-30')".encode())
        connection.rollback()


def test_dimensions_named_like_secrets_are_in_no_view(installed: str, reader: psycopg.Connection) -> None:
    """By the same words as in logs and traces."""
    names = ["password", "api_key", "key", "access-token", "db_pwd", "team", "monkey", "keys", "token_count", "author"]
    write(installed, [Attempt(NOON, dimensions=tuple((name, "v") for name in names))])
    told = reader.execute(b"SELECT dimension FROM safelight_report.cost_by_dimension").fetchall()
    assert {name for (name,) in told} == {name for name in names if not is_secret(name)}


@given(attempts=st.lists(ATTEMPTS, min_size=1, max_size=20), zone=st.sampled_from(ZONES))
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_views_agree_with_the_ledger_in_every_zone(
    installed: str, reader: psycopg.Connection, attempts: list[Attempt], zone: str
) -> None:
    """To the last decimal, day by day, as the session's zone counts them."""
    clear(installed)
    write(installed, attempts)
    reader.execute("SELECT set_config('safelight.zone', %s, false)", [zone])
    expected: dict[tuple[str, str], Decimal] = {}
    for one in attempts:
        place = (one.day(zone), one.currency)
        expected[place] = expected.get(place, Decimal(0)) + one.charged
    for view in ("usage_by_day", "cost_by_key"):
        rows = reader.execute(
            f"SELECT day::text, currency, sum(charged) FROM safelight_report.{view} GROUP BY 1, 2".encode()
        ).fetchall()
        assert {(day, currency): charged for day, currency, charged in rows} == expected
    first, last = date(2026, 3, 8), date(2026, 10, 25)
    bounded = reader.execute(
        "SELECT coalesce(sum(charged), 0) FROM safelight_report.usage_by_day(%s, %s, %s)", [zone, first, last]
    ).fetchone()
    assert bounded == (sum(one.charged for one in attempts if str(first) <= one.day(zone) <= str(last)),)


QUOTAS = [
    new_quota("total", 10),
    *(new_quota(f"c-{period}-{zone[:4]}", 10, period=period, zone=zone)
      for period in ("1d", "1w", "1M", "1y", "6h", "15m")
      for zone in ("Europe/Berlin", "Asia/Kathmandu")),
    *(new_quota(f"r-{period}", 10, period=period, rolling=True) for period in ("1m", "1h", "24h", "7d", "100s")),
    new_quota("jobs", 5, "concurrency"),
]  # fmt: skip


@given(attempts=st.lists(ATTEMPTS, min_size=1, max_size=20), zone=st.sampled_from(ZONES))
@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_dimensions_agree_with_the_ledger_in_every_zone(
    installed: str, reader: psycopg.Connection, attempts: list[Attempt], zone: str
) -> None:
    """Money to the last decimal, and times by nearest rank, a dimension's value a day."""
    timed = [replace(one, wanted_at=one.at - timedelta(seconds=n)) for n, one in enumerate(attempts, 1)]
    clear(installed)
    write(installed, timed)
    charged: dict[tuple[str, str, str, str], Decimal] = {}
    times: dict[tuple[str, str, str], list[int]] = {}
    for took_s, one in enumerate(timed, 1):
        for name, value in one.dimensions:
            place = (one.day(zone), name, value)
            charged[*place, one.currency] = charged.get((*place, one.currency), Decimal(0)) + one.charged
            times.setdefault(place, []).append(took_s)
    reader.execute("SELECT set_config('safelight.zone', %s, false)", [zone])
    costs = "SELECT day::text, dimension, value, currency, charged FROM safelight_report.cost_by_dimension"
    assert {row[:4]: row[4] for row in reader.execute(costs.encode())} == charged
    latency = "SELECT day::text, dimension, value, jobs, p50_s, p90_s FROM safelight_report.latency_by_dimension"
    assert {row[:3]: row[3:] for row in reader.execute(latency.encode())} == {
        place: (len(took), took[ceil(len(took) * 0.5) - 1], took[ceil(len(took) * 0.9) - 1])
        for place, took in times.items()
    }


def test_budgets_stand_as_the_store_tells_them(installed: str, reader: psycopg.Connection) -> None:
    """Windows of the calendar and rolling ones, with what lies before them left out."""

    async def fill() -> dict[str, tuple[Decimal, Decimal]]:
        store = PostgresStore(installed)
        await store.open()
        try:
            for quota in QUOTAS:
                await store.create_quota(quota, TESTER)
                await store.submit(new_job(team=quota.owner))
            _age(installed, QUOTAS)
            return {status.quota.owner: (status.held, status.used) for status in await store.quotas()}
        finally:
            await store.close()

    told = asyncio.run(fill())
    rows = reader.execute(b"SELECT owner, held, used FROM safelight_report.budget_status").fetchall()
    assert {owner: (held, used) for owner, held, used in rows} == told


def _age(url: str, quotas: list[Quota]) -> None:
    """Let something lie a long time back in each."""
    with psycopg.connect(url) as connection:
        for quota in quotas:
            connection.execute(
                "INSERT INTO quota_slice VALUES (%s, statement_timestamp() - interval '3 years', 0, 4)", [quota.id]
            )


def test_installing_again_changes_nothing_and_respects_what_others_built(installed: str, role: str) -> None:
    """A view that stands on one of these is not dropped in silence."""
    asyncio.run(install(installed, role))
    with psycopg.connect(installed) as connection:
        connection.execute("CREATE VIEW mine AS SELECT * FROM safelight_report.usage_by_day")
    with pytest.raises(ReportsError, match="mine"):
        asyncio.run(install(installed, role))


@pytest.mark.parametrize(
    "options", ["pgbouncer=true", "pgbouncer=true&connect_timeout=9", "connect_timeout=9&pgbouncer=true"]
)
def test_a_pooler_may_be_in_between(installed: str, role: str, options: str) -> None:
    """The option that says so is the store's own, wherever it stands: the driver knows it not."""
    asyncio.run(install(f"{installed}{'&' if '?' in installed else '?'}{options}", role))


def test_who_may_not_make_roles_is_told_what_to_do(database: str, postgres_url: str, role: str) -> None:
    """And nothing is half made."""
    owner = f"owner_{role}"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {owner} LOGIN".encode())
    try:
        with psycopg.connect(database) as admin:
            admin.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {owner}".encode())
            admin.execute(f"GRANT CREATE ON DATABASE {admin.info.dbname} TO {owner}".encode())
        as_owner = f"{database}&user={owner}"
        with pytest.raises(ReportsError, match=f"CREATE ROLE {role} NOLOGIN"):
            asyncio.run(install(as_owner, role))
        with psycopg.connect(database) as admin:
            assert admin.execute("SELECT to_regnamespace('safelight_report')").fetchone() == (None,)
        asyncio.run(install(as_owner, None))
    finally:
        with psycopg.connect(database) as admin:
            admin.execute(f"DROP OWNED BY {owner}".encode())
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute(f"DROP ROLE {owner}".encode())
