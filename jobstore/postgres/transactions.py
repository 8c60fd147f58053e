"""Transactions: each is carried to its end, whoever waits for it, and tried again where it lost a race."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar
from weakref import WeakKeyDictionary

from psycopg import AsyncConnection, Pipeline
from psycopg.errors import DeadlockDetected, FeatureNotSupported, QueryCanceled
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from jobstore.errors import StoreBusyError
from jobstore.postgres.columns import Connection
from jobstore.postgres.rows import PostgresRows
from jobstore.postgres.submit import LostRaceError
from jobstore.postgres.turns import Turns
from jobstore.rules.rows import Row
from jobstore.shielded import Shielded

T = TypeVar("T")

_TRIES = 10
_MAX_WAITING = 1000
_TRUSTED_S = 0.1
_LONGEST_S = 120.0  # for statements of a server that answers no more; what lasts is done in batches
_TURN_S = 5.0  # a slow read waits for its turn
_BOUND = "SELECT set_config('statement_timeout', %(limit)s, true)"  # in this transaction: a pooler shares connections


class _StalePlanError(Exception):
    """A table has other columns than when the statement was prepared."""


class Transactions:
    """Runs work in transactions on a pool of connections. Belongs to the event loop that opened it."""

    def __init__(self, url: str, max_connections: int, wait_s: float) -> None:
        """Nothing is connected before ``open``. ``wait_s`` bounds the wait for a connection, in seconds.

        ``pgbouncer=true`` in the URL's query says that a pooler is in between which may not know prepared statements.
        """
        url, pooled = libpq_url(url)
        self._url = url
        self._wait_s = wait_s
        self._shielded = Shielded()
        slow = max(1, max_connections * 4 // 10)
        self._turns = Turns(slow, max(1, slow // 2), min(wait_s, _TURN_S))
        self._used: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()
        self._pool: AsyncConnectionPool[AsyncConnection[Row]] = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=max_connections,
            max_waiting=_MAX_WAITING,
            timeout=wait_s,
            open=False,
            kwargs={
                # Every transaction is opened by name: what a check or a clean-up leaves behind can't take it apart.
                "autocommit": True,
                "row_factory": dict_row,
                "prepare_threshold": None if pooled else 5,
                "connect_timeout": self._connect_s,
                "application_name": "safelight",
                # A server that vanished without a word is noticed.
                "keepalives_idle": 15,
                "keepalives_interval": 5,
                "keepalives_count": 3,
                "tcp_user_timeout": 30_000,
            },
            configure=_configure,
            check=self._check,
        )

    @property
    def _connect_s(self) -> int:
        return max(2, int(self._wait_s))

    async def open(self) -> None:
        """Connect. Raises psycopg.OperationalError, which says why, when the database can't be reached."""
        # The pool would only tell that it waited in vain.
        probe = await AsyncConnection.connect(self._url, connect_timeout=self._connect_s)
        await probe.close()
        await self._pool.open(wait=True, timeout=self._wait_s)

    async def close(self) -> None:
        """Let running transactions end, and close all connections."""
        await self._shielded.drain()
        await self._pool.close()

    async def run(self, work: Callable[[PostgresRows], Awaitable[T]], limit_s: float | None = _LONGEST_S) -> T:
        """The result of ``work`` in a transaction of its own. Raises TimeoutError after ``limit_s`` seconds.

        A caller that is canceled leaves the transaction to end by itself. Lost races (a fingerprint taken meanwhile, a
        deadlock) are run again.
        """
        return await self._shielded.run(self._persist(lambda: self._in_transaction(work), limit_s))

    async def pipelined(self, work: Callable[[PostgresRows], Awaitable[Callable[[], Awaitable[T]]]]) -> T:
        """The same, on a connection where statements go to the server without waiting for the one before.

        ``work`` waits only where it fetches; what it returns is called when all is committed, and may fetch what the
        last statements found. Every statement must be a single command.
        """
        return await self._shielded.run(self._persist(lambda: self._in_pipeline(work), _LONGEST_S))

    async def plainly(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """The result of ``work`` on a connection where every statement is a transaction of its own.

        For reads, and for writes of one statement: it saves the way to the server and back for BEGIN and COMMIT. A
        caller that is canceled leaves it to end by itself. A statement that lost a deadlock is run again.
        """
        return await self._shielded.run(self._persist(lambda: self._plainly(work), _LONGEST_S))

    async def slowly(self, work: Callable[[Connection], Awaitable[T]], owner: Hashable, limit_s: float) -> T:
        """The result of a read that may take long, of which few go on at once, and fewer for one ``owner``.

        Raises StoreBusyError where it gets no turn, or where a statement takes longer than ``limit_s`` seconds.
        """
        return await self._shielded.run(self._persist(lambda: self._in_turn(work, owner, limit_s), _LONGEST_S))

    async def _persist(self, attempt: Callable[[], Awaitable[T]], limit_s: float | None) -> T:
        async with asyncio.timeout(limit_s):
            for _ in range(_TRIES - 1):
                with suppress(LostRaceError, DeadlockDetected, _StalePlanError):
                    return await attempt()
            return await attempt()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        """A connection of the pool; one whose prepared statements a migration has outdated is given up."""
        async with self._pool.connection() as connection:
            try:
                yield connection
            except FeatureNotSupported as error:
                if "cached plan" not in str(error):
                    raise
                await connection.close()
                raise _StalePlanError from error
            self._used[connection] = time.monotonic()

    async def _plainly(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        async with self._connected() as connection:
            return await work(connection)

    async def _in_turn(self, work: Callable[[Connection], Awaitable[T]], owner: Hashable, limit_s: float) -> T:
        async with self._turns.take(owner), self._connected() as connection:
            try:
                async with connection.transaction():
                    await connection.execute(_BOUND, {"limit": str(round(limit_s * 1000))})
                    return await work(connection)
            except QueryCanceled:
                raise StoreBusyError(
                    f"this takes longer than {limit_s:g} s at the moment: narrow it, to fewer days for instance"
                ) from None

    async def _in_transaction(self, work: Callable[[PostgresRows], Awaitable[T]]) -> T:
        async with self._connected() as connection, connection.transaction():
            rows = PostgresRows(connection)
            result = await work(rows)
            await rows.flush()
            return result

    async def _in_pipeline(self, work: Callable[[PostgresRows], Awaitable[Callable[[], Awaitable[T]]]]) -> T:
        if not Pipeline.is_supported():
            return await (await self._in_transaction(work))()
        async with self._connected() as connection:
            try:
                async with connection.pipeline():
                    # By hand: the driver's own block would wait for everything before it sends COMMIT.
                    await connection.execute("BEGIN")
                    rows = PostgresRows(connection)
                    found = await work(rows)
                    await rows.flush()
                    await connection.execute("COMMIT")
                return await found()
            except BaseException:
                await connection.rollback()
                raise

    async def _check(self, connection: Connection) -> None:
        """Raise if the connection is dead. One that answered a moment ago is taken for alive."""
        if time.monotonic() - self._used.get(connection, 0.0) > _TRUSTED_S:
            await AsyncConnectionPool.check_connection(connection)


def libpq_url(url: str) -> tuple[str, bool]:
    """The URL as libpq knows it, and whether a pooler is in between."""
    place, _, query = url.partition("?")
    options = query.split("&") if query else []
    kept = "&".join(option for option in options if not option.startswith("pgbouncer="))
    return f"{place}?{kept}" if kept else place, "pgbouncer=true" in options


async def _configure(connection: Connection) -> None:
    """Bound what a stuck client can hold up. A start-up option would be shorter, but PgBouncer refuses those."""
    await connection.execute("SET idle_in_transaction_session_timeout = '30s'")
