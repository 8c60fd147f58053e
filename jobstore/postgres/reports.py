"""Reports of costs and times in PostgreSQL."""

from __future__ import annotations

from typing import Any

from psycopg.errors import InvalidParameterValue

from jobstore.postgres.columns import Connection, every
from jobstore.reports.model import CostReport, LatencyReport, ReportQuery, check_query, dimension_of
from jobstore.reports.rows import columns_of, cost_report, keys_in, latency_report
from jobstore.rules.rows import Row

# What rows are grouped by, and what is told of each group: a conversion a group costs nothing, one a row much.
_GROUPS = {
    "day": (
        "width_bucket(at, (SELECT starts FROM days))",
        "((SELECT starts FROM days)[{}] AT TIME ZONE %(zone)s)::date::text",
    ),
    "key": ("key_id", "{}::text"),
    "model": ("model", "{}"),
    "team": ("team", "{}"),
    "customer": ("customer", "{}"),
    "lane": ("lane", "nullif({}, '')"),
    "device": ("device", "nullif({}, '')"),
    "cache": ("cache", "{}"),
}
_DAYS = """
days AS MATERIALIZED (
    SELECT array_agg(day_start(day::date, %(zone)s) ORDER BY day) AS starts
    FROM generate_series(%(first)s::date::timestamp, %(last)s::date::timestamp, interval '1 day') AS day
),
"""
_SUMS = """
count(*) FILTER (WHERE outcome = 'succeeded') AS jobs, count(*) AS attempts, sum(pictures) AS pictures,
sum(gpu_seconds) AS gpu_seconds, sum(charged) AS charged,
coalesce(sum(price) FILTER (WHERE outcome = 'succeeded' AND cache <> 'miss'), 0) AS saved
"""
_SUMMED = "jobs, attempts, pictures, gpu_seconds, charged, saved"
_REST = """
sum(jobs) AS jobs, sum(attempts) AS attempts, sum(pictures) AS pictures, sum(gpu_seconds) AS gpu_seconds,
sum(charged) AS charged, sum(saved) AS saved
"""
_TOOK = """
count(*) AS jobs,
percentile_disc(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM at - wanted_at)::double precision) AS p50_s,
percentile_disc(0.9) WITHIN GROUP (ORDER BY extract(epoch FROM at - wanted_at)::double precision) AS p90_s
"""
_NAMES = "SELECT id::text AS id, name FROM api_key WHERE id = ANY(%(ids)s::uuid[])"


async def costs(connection: Connection, query: ReportQuery) -> CostReport:
    """Sums over the ledger. Raises ValueError."""
    check_query(query)
    arguments = _arguments(query)
    names = columns_of(query.by)
    grouped, told = _groups(query)
    listed = "".join(f"{name}, " for name in names)
    order = "".join(f'{name} COLLATE "C" NULLS LAST, ' for name in names)
    nulls = "".join(f"NULL::text AS {name}, " for name in names)
    found = await _asked(
        connection,
        f"""
        WITH {_DAYS}
        grouped AS (
            SELECT {grouped} currency, {_SUMS} FROM usage WHERE {_where(query)} GROUP BY {listed} currency
        ),
        told AS (SELECT {told} currency, {_SUMMED} FROM grouped),
        placed AS (
            SELECT *, row_number() OVER (
                ORDER BY charged DESC, gpu_seconds DESC, attempts DESC, {order} currency
            ) > %(limit)s AS is_rest
            FROM told
        )
        SELECT is_rest, {listed} currency, {_SUMMED} FROM placed WHERE NOT is_rest
        UNION ALL
        SELECT true, {nulls} currency, {_REST} FROM placed WHERE is_rest GROUP BY currency
        """,
        arguments,
    )
    return cost_report(query, found, await _names(connection, keys_in(query, found)))


async def latency(connection: Connection, query: ReportQuery) -> LatencyReport:
    """Percentiles over the ledger. Raises ValueError."""
    check_query(query)
    arguments = _arguments(query)
    source = f"FROM usage WHERE {_where(query)} AND wanted_at IS NOT NULL"
    whole = await _asked(connection, f"SELECT {_TOOK} {source}", arguments)
    if not query.by:
        return latency_report(query, [row for row in whole if row["jobs"]], whole[0], 0, {})
    names = columns_of(query.by)
    grouped, told = _groups(query)
    order = ", ".join(f'{name} COLLATE "C" NULLS LAST' for name in names)
    found = await _asked(
        connection,
        f"""
        WITH {_DAYS}
        timed AS (SELECT {grouped} {_TOOK} {source} GROUP BY {", ".join(names)}),
        told AS (SELECT {told} jobs, p50_s, p90_s FROM timed)
        SELECT * FROM told ORDER BY jobs DESC, {order} LIMIT %(limit)s
        """,
        arguments,
    )
    rest = whole[0]["jobs"] - sum(row["jobs"] for row in found)
    return latency_report(query, found, whole[0], rest, await _names(connection, keys_in(query, found)))


async def _asked(connection: Connection, query: str, arguments: dict[str, Any]) -> list[Row]:
    try:
        return await every(connection, query, arguments)
    except InvalidParameterValue:
        raise ValueError(f"zone {arguments['zone']} is not known to the database") from None


async def _names(connection: Connection, ids: list[str]) -> dict[str, str]:
    if not ids:
        return {}
    return {row["id"]: row["name"] for row in await every(connection, _NAMES, {"ids": ids})}


def _groups(query: ReportQuery) -> tuple[str, str]:
    """The columns that rows are grouped by, and those that are told of the groups, by the same names."""
    grouped, told = "", ""
    for place, (name, group) in enumerate(zip(columns_of(query.by), query.by, strict=True)):
        dimension = (f"dimensions ->> %(by_{place})s", "{}")
        raw, text = dimension if dimension_of(group) else _GROUPS[group]
        grouped += f"{raw} AS {name}, "
        told += f"{text.format(name)} AS {name}, "
    return grouped, told


def _arguments(query: ReportQuery) -> dict[str, Any]:
    where = query.where
    dimensions = {f"by_{place}": dimension_of(group) for place, group in enumerate(query.by)}
    wanted = {name: getattr(where, name) for name in _FILTERS}
    for place, (name, value) in enumerate(sorted(where.dimensions.items())):
        wanted |= {f"name_{place}": name, f"value_{place}": value}
    return {
        "first": query.first, "last": query.last, "zone": query.zone, "limit": query.limit,
        **dimensions, **wanted,
    }  # fmt: skip


_FILTERS = ("key_id", "team", "customer", "model", "lane", "device", "cache")


def _where(query: ReportQuery) -> str:
    where = query.where
    parts = ["at >= day_start(%(first)s::date, %(zone)s)", "at < day_start(%(last)s::date + 1, %(zone)s)"]
    parts += [f"{name} = %({name})s" for name in _FILTERS if getattr(where, name) is not None]
    parts += [f"dimensions ->> %(name_{place})s = %(value_{place})s" for place in range(len(where.dimensions))]
    return " AND ".join(parts)
