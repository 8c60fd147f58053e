"""One connection to a SQLite file: transactions, and values as the rules know them."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit
from uuid import UUID

import aiosqlite

from jobstore.rules.rows import Row
from jobstore.shielded import Shielded

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UUIDS = frozenset({"id", "job_id", "key_id", "leader_id", "worker_id", "quota_id", "endpoint_id"})
_INSTANTS = frozenset(
    {
        "at", "created_at", "deadline_at", "doomed_at", "expires_at", "finished_at", "paused_at", "revoked_at",
        "rung_at", "seen_at", "served_at", "start_at", "start_by", "started_at", "starts_at", "previous_until",
        "failing_since", "disabled_at", "next_at", "tried_at", "delivered_at", "drain_asked_at",
        "left_at", "changed_at",
    }
)  # fmt: skip
_AMOUNTS = frozenset({"price", "reserved", "charged", "gpu_seconds", "ceiling", "rate", "most", "held", "used"})
_JSON = frozenset(
    {
        "request",
        "dimensions",
        "error",
        "warnings",
        "pictures",
        "lanes",
        "data",
        "quotas",
        "fallbacks",
        "scopes",
        "models",
        "networks",
        "details",
        "webhook",
        "events",
        "event",
        "report",
        "batch_mates",
    }
)
_FLAGS = frozenset({"joinable", "followed", "cancel_requested", "admin", "rolling"})


def path_of(url: str) -> Path:
    """The file of ``sqlite:///relative`` or ``sqlite:////absolute``. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme != "sqlite" or parts.netloc or len(parts.path) < 2:
        raise ValueError("a SQLite store is named by a URL like sqlite:///safelight.db")
    return Path(unquote(parts.path[1:]))


def micros(at: datetime) -> int:
    """Microseconds since 1970."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def now() -> int:
    """The store's clock: microseconds since 1970."""
    return time.time_ns() // 1000


def encoded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as SQLite takes them."""
    return {name: _encoded(name, value) for name, value in values.items()}


def _encoded(name: str, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return micros(value)
    if name in _AMOUNTS:
        return format(Decimal(value), "f")
    if name in _JSON and not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return value


def decoded(row: sqlite3.Row) -> Row:
    """A row as the rules know it."""
    return {name: _decoded(name, value) for name, value in zip(row.keys(), row, strict=True)}


def _decoded(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _INSTANTS:
        return _EPOCH + timedelta(microseconds=value)
    if name in _UUIDS:
        return UUID(value)
    if name in _AMOUNTS:
        return Decimal(value)
    if name in _JSON:
        return json.loads(value)
    return bool(value) if name in _FLAGS else value


class Database:
    """A connection to a file that other processes may use too. Belongs to the event loop that opened it."""

    def __init__(self, url: str, wait_s: float) -> None:
        """``wait_s`` bounds the wait for other processes' transactions, in seconds."""
        self._path = path_of(url)
        self._wait_s = wait_s
        self._turn = asyncio.Lock()
        self._shielded = Shielded()
        self._connection: aiosqlite.Connection | None = None

    async def open(self) -> None:
        """Open the file, or make it. Raises sqlite3.OperationalError."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = await aiosqlite.connect(self._path, timeout=self._wait_s, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        # Every commit reaches the disk: the store is the truth.
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            await self._connection.execute(f"PRAGMA {pragma}")

    async def close(self) -> None:
        """Let running transactions end, and close the file."""
        await self._shielded.drain()
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def run(self, work: Callable[[], Awaitable[T]], *, writes: bool = True) -> T:
        """The result of ``work`` in a transaction of its own, which no caller's cancellation reaches."""
        return await self._shielded.run(self._run(work, "IMMEDIATE" if writes else "DEFERRED"))

    async def _run(self, work: Callable[[], Awaitable[T]], kind: str) -> T:
        async with self._turn:
            await self._begin(kind)
            try:
                result = await work()
                await self.execute("COMMIT")
            except BaseException:
                if self._open.in_transaction:  # a full disk has ended it
                    await self.execute("ROLLBACK")
                raise
            return result

    async def _begin(self, kind: str) -> None:
        # SQLite's own wait is unfair: a process that always comes back at once can keep others out beyond it.
        end = time.monotonic() + self._wait_s
        while True:
            try:
                await self.execute(f"BEGIN {kind}")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
                await asyncio.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - a pause, no secret
            else:
                return

    async def execute(self, query: str, values: Mapping[str, Any] | None = None) -> int:
        """Run a statement; how many rows it changed."""
        async with self._open.execute(query, encoded(values or {})) as cursor:
            return cursor.rowcount

    async def insert(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Insert rows."""
        for row in rows:
            names = ", ".join(f'"{name}"' for name in row)
            marks = ", ".join(f":{name}" for name in row)
            await self.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", row)

    async def every(self, query: str, values: Mapping[str, Any] | None = None) -> list[Row]:
        """All rows of a query."""
        async with self._open.execute(query, encoded(values or {})) as cursor:
            return [decoded(row) async for row in cursor]

    async def one(self, query: str, values: Mapping[str, Any] | None = None) -> Row | None:
        """The first row of a query."""
        rows = await self.every(query, values)
        return rows[0] if rows else None

    async def script(self, text: str) -> None:
        """Run the statements of a script, inside the transaction under way."""
        statement = ""
        for line in text.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                await self.execute(statement)
                statement = ""

    @property
    def _open(self) -> aiosqlite.Connection:
        if self._connection is None:
            raise RuntimeError("the store isn't open")
        return self._connection
