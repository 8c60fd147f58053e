"""Transactions: each is carried to its end, whoever waits for it, and tried again where it lost a race."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from psycopg import AsyncConnection
from psycopg.errors import DeadlockDetected
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from jobstore.postgres.columns import Connection
from jobstore.postgres.rows import PostgresRows
from jobstore.postgres.submit import LostRaceError
from jobstore.rules.rows import Row
from jobstore.shielded import Shielded

T = TypeVar("T")

_TRIES = 10
_MAX_WAITING = 1000


class Transactions:
    """Runs work in transactions on a pool of connections. Belongs to the event loop that opened it."""

    def __init__(self, url: str, max_connections: int, wait_s: float) -> None:
        """Nothing is connected before ``open``. ``wait_s`` bounds the wait for a connection, in seconds."""
        self._url = url
        self._wait_s = wait_s
        self._shielded = Shielded()
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
                "prepare_threshold": None,  # a PgBouncer in between may not know prepared statements
                "connect_timeout": self._connect_s,
                "application_name": "safelight",
            },
            configure=_configure,
            check=AsyncConnectionPool.check_connection,
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

    async def run(self, work: Callable[[PostgresRows], Awaitable[T]]) -> T:
        """The result of ``work`` in a transaction of its own.

        A caller that is canceled leaves the transaction to end by itself. Lost races (a fingerprint taken meanwhile, a
        deadlock) are run again.
        """
        return await self._shielded.run(self._persist(work))

    async def _persist(self, work: Callable[[PostgresRows], Awaitable[T]]) -> T:
        for _ in range(_TRIES - 1):
            with suppress(LostRaceError, DeadlockDetected):
                return await self._once(work)
        return await self._once(work)

    async def _once(self, work: Callable[[PostgresRows], Awaitable[T]]) -> T:
        async with self._pool.connection() as connection, connection.transaction():
            rows = PostgresRows(connection)
            result = await work(rows)
            await rows.flush()
            return result


async def _configure(connection: Connection) -> None:
    """Bound what a stuck client can hold up. A start-up option would be shorter, but PgBouncer refuses those."""
    await connection.execute("SET idle_in_transaction_session_timeout = '30s'")
