"""Reports of costs and times in PostgreSQL."""

from __future__ import annotations

from typing import Any

from psycopg.errors import InvalidParameterValue

from jobstore.postgres.columns import Connection, every
from jobstore.postgres.sources import AMOUNTS, SUM, amounts, arguments, leaves_out, spans, table_of, times, told
from jobstore.reports.model import CostReport, LatencyReport, ReportQuery, check_query
from jobstore.reports.rows import columns_of, cost_report, keys_in, latency_report
from jobstore.rules.rows import Row

# Compiling costs more than it saves here. Sorting and grouping want memory, if the server gives less.
_PLANS = """
SELECT set_config('jit', 'off', true), CASE
    WHEN pg_size_bytes(current_setting('work_mem')) < pg_size_bytes('64MB') THEN set_config('work_mem', '64MB', true)
END
"""
# By nearest rank, of all times in the arrays that a group has.
_RANKS = """
CROSS JOIN LATERAL (
    SELECT count(*) AS jobs, percentile_disc(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY one) AS ranks
    FROM (SELECT unnest(part.times) AS one FROM unnest(parts) AS part (times bigint[])) AS unpacked
) AS ranked
"""
_RANKED = "jobs, ranks[1]::double precision / 1000000 AS p50_s, ranks[2]::double precision / 1000000 AS p90_s"
_NAMES = "SELECT id::text AS id, name FROM api_key WHERE id = ANY(%(ids)s::uuid[])"


async def costs(connection: Connection, query: ReportQuery) -> CostReport:
    """Sums over the ledger. The connection is in a transaction. Raises ValueError."""
    check_query(query)
    names = columns_of(query.by)
    listed = "".join(f"{name}, " for name in names)
    order = "".join(f'{name} COLLATE "C" NULLS LAST, ' for name in names)
    nulls = "".join(f"NULL::text AS {name}, " for name in names)
    found = await _asked(
        connection,
        f"""
        WITH {spans(query)} {amounts(query)},
        grouped AS (SELECT {listed} currency, {SUM} FROM fact GROUP BY {listed} currency HAVING sum(attempts) > 0),
        told AS (SELECT {told(query)} currency, {AMOUNTS} FROM grouped),
        placed AS (
            SELECT *, row_number() OVER (
                ORDER BY charged DESC, gpu_seconds DESC, attempts DESC, {order} currency
            ) > %(limit)s AS is_rest
            FROM told
        )
        SELECT is_rest, {listed} currency, {AMOUNTS} FROM placed WHERE NOT is_rest
        UNION ALL
        SELECT true, {nulls} currency, {SUM} FROM placed WHERE is_rest GROUP BY currency
        """,
        arguments(query),
    )
    return cost_report(query, found, await _names(connection, keys_in(query, found)))


async def latency(connection: Connection, query: ReportQuery) -> LatencyReport:
    """Percentiles over the ledger. The connection is in a transaction. Raises ValueError."""
    check_query(query)
    table = table_of(query)
    total, found = await _timed(connection, query, table)
    if leaves_out(query, table) and sum(row["all_jobs"] for row in found[:1]) < total["jobs"]:
        total, found = await _timed(connection, query, table, nameless=True)
    rest = total["jobs"] - sum(row["jobs"] for row in found)
    return latency_report(query, found, total, rest, await _names(connection, keys_in(query, found)))


async def _timed(
    connection: Connection, query: ReportQuery, table: str | None, *, nameless: bool = False
) -> tuple[Row, list[Row]]:
    """The times over all, and those of the groups, in one look at the ledger."""
    names = columns_of(query.by)
    listed = "".join(f"{name}, " for name in names)
    order = "".join(f', {name} COLLATE "C" NULLS LAST' for name in names)
    nulls = "".join(f"NULL::text AS {name}, " for name in names)
    grouped = f"GROUP BY {', '.join(names)}" if names else ""
    whole = "usage_by_owner" if leaves_out(query, table) else table
    found = await _asked(
        connection,
        f"""
        WITH {spans(query)}
        part AS ({times(query, table, query.by, nameless=nameless)}),
        grouped AS (SELECT {listed} array_agg(ROW(took)) AS parts FROM part {grouped}),
        told AS (SELECT {told(query)} {_RANKED} FROM grouped {_RANKS}),
        first AS (SELECT *, sum(jobs) OVER () AS all_jobs FROM told ORDER BY jobs DESC {order} LIMIT %(limit)s),
        every_part AS ({times(query, whole, ())}),
        every_group AS (SELECT array_agg(ROW(took)) AS parts FROM every_part)
        SELECT false AS is_total, {listed} jobs, p50_s, p90_s, all_jobs FROM first WHERE jobs > 0
        UNION ALL
        SELECT true, {nulls} {_RANKED}, jobs FROM every_group {_RANKS}
        """,
        arguments(query),
    )
    return next(row for row in found if row["is_total"]), [row for row in found if not row["is_total"]]


async def _asked(connection: Connection, query: str, arguments: dict[str, Any]) -> list[Row]:
    await connection.execute(_PLANS)
    try:
        return await every(connection, query, arguments)
    except InvalidParameterValue:
        raise ValueError(f"zone {arguments['zone']} is not known to the database") from None


async def _names(connection: Connection, ids: list[str]) -> dict[str, str]:
    if not ids:
        return {}
    return {row["id"]: row["name"] for row in await every(connection, _NAMES, {"ids": ids})}
