"""Transactions: each is carried to its end, whoever waits for it, and tried again where it lost a race."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from psycopg import AsyncConnection
from psycopg.errors import DeadlockDetected, UniqueViolation
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from jobstore.postgres.rows import Connection, Row

T = TypeVar("T")

_TRIES = 10
_MAX_WAITING = 1000


class Transactions:
    """Runs work in transactions on a pool of connections. Belongs to the event loop that opened it."""

    def __init__(self, url: str, max_connections: int, wait_s: float) -> None:
        """Nothing is connected before ``open``. ``wait_s`` bounds the wait for a connection, in seconds."""
        self._url = url
        self._wait_s = wait_s
        self._running: set[asyncio.Task[object]] = set()
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
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._pool.close()

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """The result of ``work`` in a transaction of its own.

        A caller that is canceled (a client that went away) leaves the transaction to end by itself: a query that is
        broken off would cost a connection. Lost races (a fingerprint taken meanwhile, a deadlock) are run again.
        """
        task = asyncio.ensure_future(self._persist(work))
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited has it; nobody may have

    async def _persist(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        for _ in range(_TRIES - 1):
            try:
                return await self._once(work)
            except DeadlockDetected:
                continue
            except UniqueViolation as error:
                if error.diag.constraint_name != "job_in_flight":
                    raise
        return await self._once(work)

    async def _once(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        async with self._pool.connection() as connection, connection.transaction():
            return await work(connection)


async def _configure(connection: Connection) -> None:
    """Bound what a stuck client can hold up. A start-up option would be shorter, but PgBouncer refuses those."""
    await connection.execute("SET idle_in_transaction_session_timeout = '30s'")
