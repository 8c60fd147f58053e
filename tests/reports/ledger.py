"""Rows of the ledger at chosen instants, put straight into a store's table, and their sums by hand."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import psycopg
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

ZONES = (
    "UTC",
    "Europe/Berlin",  # days of 23 and 25 hours
    "America/New_York",
    "America/Havana",  # midnight twice
    "Africa/Cairo",  # no midnight
    "Australia/Lord_Howe",  # days of 23.5 and 24.5 hours
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Pacific/Chatham",
    "Pacific/Kiritimati",
    "Pacific/Pago_Pago",
)
_NAMES = (
    "job_id", "attempt", "token", "key_id", "team", "customer", "lane", "model", "device", "worker_id", "outcome",
    "error_code", "cache", "gpu_seconds", "price", "charged", "currency", "dimensions", "batch_rows", "pictures",
    "wanted_at", "at",
)  # fmt: skip


@dataclass(frozen=True)
class Attempt:
    """A row of the ledger, as far as reports look at it."""

    at: datetime
    charged: Decimal = Decimal("0.002")
    price: Decimal = Decimal("0.002")
    gpu_seconds: Decimal = Decimal("1.5")
    currency: str = "USD"
    model: str = "m"
    team: str | None = "ads"
    customer: str | None = None
    key_id: UUID | None = None
    lane: str = "default"
    device: str = "cuda:0"
    outcome: str = "succeeded"
    cache: str = "miss"
    pictures: int = 1
    wanted_at: datetime | None = None
    dimensions: tuple[tuple[str, str], ...] = ()

    def day(self, zone: str) -> str:
        """The day on which it was settled."""
        return self.at.astimezone(ZoneInfo(zone)).date().isoformat()

    @property
    def saved(self) -> Decimal:
        """What it would have cost where it cost nothing."""
        return self.price if self.cache != "miss" and self.outcome == "succeeded" else Decimal(0)

    def columns(self) -> dict[str, Any]:
        """All columns of the table."""
        own = {name: getattr(self, name) for name in _NAMES if hasattr(self, name)}
        return own | {
            "job_id": uuid4(), "attempt": 1, "token": None, "worker_id": None, "error_code": None, "batch_rows": None,
            "dimensions": dict(self.dimensions),
        }  # fmt: skip


def write(url: str, attempts: Sequence[Attempt]) -> None:
    """Put them into the ledger of the store with that URL."""
    if url.startswith("sqlite"):
        rows = [attempt.columns() for attempt in attempts]
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=10)) as file, file:
            marks = ", ".join(f":{name}" for name in _NAMES)
            file.executemany(f"INSERT INTO usage ({', '.join(_NAMES)}) VALUES ({marks})", map(_plain, rows))
        return
    with psycopg.connect(url) as connection:
        insert(connection, attempts)


def insert(connection: psycopg.Connection, attempts: Sequence[Attempt]) -> None:
    """Put them into a PostgreSQL store's ledger, in the transaction of that connection."""
    marks = ", ".join(f"%({name})s" for name in _NAMES)
    adapted = [row | {"dimensions": Jsonb(row["dimensions"])} for row in (attempt.columns() for attempt in attempts)]
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO usage ({', '.join(_NAMES)}) VALUES ({marks})".encode(), adapted)


def clear(url: str) -> None:
    """Leave nothing in the ledger."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=10)) as file, file:
            file.execute("DELETE FROM usage")
        return
    with psycopg.connect(url) as connection:
        connection.execute("DELETE FROM usage")


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in row.items()}


def _value(value: object) -> object:
    if isinstance(value, datetime):
        return round(value.timestamp() * 1_000_000)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value) if isinstance(value, UUID) else value


def _around(*days: str) -> st.SearchStrategy[datetime]:
    """Instants of these days, the one before and the one after."""
    return st.builds(
        lambda day, seconds: datetime.fromisoformat(f"{day}T00:00:00+00:00") + timedelta(seconds=seconds),
        st.sampled_from(days),
        st.integers(-86_400, 2 * 86_400),
    )


# The days on which clocks change somewhere among ZONES.
INSTANTS = _around("2026-03-08", "2026-03-29", "2026-04-05", "2026-04-24", "2026-10-04", "2026-10-25", "2026-11-01")
AMOUNTS = st.decimals(min_value=0, max_value=1000, places=9)
ATTEMPTS = st.builds(
    Attempt,
    at=INSTANTS,
    charged=AMOUNTS,
    price=AMOUNTS,
    gpu_seconds=st.decimals(min_value=0, max_value=1000, places=6),
    currency=st.sampled_from(["USD", "EUR"]),
    model=st.sampled_from(["flux", "draft"]),
    team=st.sampled_from(["ads", "shop", None]),
    outcome=st.sampled_from(["succeeded", "failed", "lost"]),
    cache=st.sampled_from(["miss", "hit", "joined"]),
    pictures=st.integers(0, 4),
    dimensions=st.sampled_from([(), (("experiment", "a"),), (("experiment", "b"), ("team", "x"))]),
)
