"""What the queries share: connections, the column types that need a hand, and what is counted as one tenant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from jobstore.rules.rows import Row

Connection = AsyncConnection[Row]

_JSON = frozenset({"request", "dimensions", "error", "warnings", "quotas", "fallbacks", "webhook"})


def adapted(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Column values as the driver takes them."""
    return {name: Jsonb(value) if name in _JSON and value is not None else value for name, value in columns.items()}


async def one(connection: Connection, query: str, arguments: Mapping[str, Any]) -> Row | None:
    """The first row of a query."""
    return await (await connection.execute(query, arguments)).fetchone()


async def every(connection: Connection, query: str, arguments: Mapping[str, Any]) -> list[Row]:
    """All rows of a query."""
    return await (await connection.execute(query, arguments)).fetchall()


async def sole(connection: Connection, query: str, arguments: Mapping[str, Any]) -> Row:
    """The row of a query that always has one. Raises LookupError where it has none, against its promise."""
    row = await one(connection, query, arguments)
    if row is None:
        raise LookupError(f"no row came of {query}")
    return row
