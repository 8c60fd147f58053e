"""Reports of costs and times in SQLite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from jobstore.reports.days import spans
from jobstore.reports.model import CostReport, LatencyReport, ReportQuery, check_query, dimension_of
from jobstore.reports.rows import columns_of, cost_report, keys_in, latency_report
from jobstore.rules.rows import Row
from jobstore.sqlite.database import Database, micros

_FILTERS = ("key_id", "team", "customer", "model", "lane", "device", "cache")
_GROUPS = {
    "day": "span.day",
    "key": "key_id",
    "model": "model",
    "team": "team",
    "customer": "customer",
    "lane": "nullif(lane, '')",
    "device": "nullif(device, '')",
    "cache": "cache",
}
_NANOS = 10**9
# The days, or the one span of all of them: the index of the ledger's times is gone through span by span.
_SPANS = """
WITH span (day, since, until) AS MATERIALIZED (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(:spans)
),
"""
_SOURCE = "FROM span CROSS JOIN usage ON usage.at >= span.since AND usage.at < span.until"


def _whole(amount: str, condition: str = "1") -> str:
    """Amounts are text, and sums are exact: whole units for themselves, and billionths for themselves."""
    return f"coalesce(sum(CAST({amount} AS INTEGER)) FILTER (WHERE {condition}), 0)"


def _nanos(amount: str, condition: str = "1") -> str:
    digits = f"substr(substr({amount}, instr({amount}, '.') + 1) || '000000000', 1, 9)"
    return f"coalesce(sum(CAST({digits} AS INTEGER)) FILTER (WHERE instr({amount}, '.') AND {condition}), 0)"


_SAVED = "outcome = 'succeeded' AND cache <> 'miss'"
_PARTS = {"gpu_seconds": ("gpu_seconds", "1"), "charged": ("charged", "1"), "saved": ("price", _SAVED)}
_SUMS = ", ".join(
    [
        "count(*) FILTER (WHERE outcome = 'succeeded') AS jobs, count(*) AS attempts, sum(pictures) AS pictured",
        *(f"{_whole(*part)} AS {name}_whole, {_nanos(*part)} AS {name}_nanos" for name, part in _PARTS.items()),
    ]
)
_CARRIED = ", ".join(
    f"{name}_whole + {name}_nanos / {_NANOS} AS {name}_whole, {name}_nanos % {_NANOS} AS {name}_nanos"
    for name in _PARTS
)
_SUMMED = ("jobs", "attempts", "pictured", *(f"{name}_{part}" for name in _PARTS for part in ("whole", "nanos")))


async def costs(database: Database, query: ReportQuery) -> CostReport:
    """Sums over the ledger. Raises ValueError."""
    check_query(query)
    names = columns_of(query.by)
    listed = "".join(f"{name}, " for name in names)
    order = "".join(f"{name} NULLS LAST, " for name in names)
    nulls = "".join(f"NULL AS {name}, " for name in names)
    found = await database.every(
        f"""
        {_SPANS}
        grouped AS (
            SELECT {_groups(query)} currency, {_SUMS} {_SOURCE} WHERE {_where(query)} GROUP BY {listed} currency
        ),
        carried AS (SELECT {listed} currency, jobs, attempts, pictured, {_CARRIED} FROM grouped),
        placed AS (
            SELECT *, row_number() OVER (
                ORDER BY charged_whole DESC, charged_nanos DESC, gpu_seconds_whole DESC, gpu_seconds_nanos DESC,
                         attempts DESC, {order} currency
            ) > :limit AS is_rest
            FROM carried
        )
        SELECT is_rest, {listed} currency, {", ".join(_SUMMED)} FROM placed WHERE NOT is_rest
        UNION ALL
        SELECT 1, {nulls} currency, {", ".join(f"sum({name})" for name in _SUMMED)}
        FROM placed WHERE is_rest GROUP BY currency
        """,
        _arguments(query),
    )
    names_of = await _names(database, keys_in(query, found))
    return cost_report(query, [_joined(row) for row in found], names_of)


async def latency(database: Database, query: ReportQuery) -> LatencyReport:
    """Percentiles over the ledger. Raises ValueError."""
    check_query(query)
    arguments = _arguments(query)
    total = next(iter(await database.every(_percentiles(query, ()), arguments)), None)
    if not query.by:
        return latency_report(query, [total] if total else [], total, 0, {})
    found = await database.every(_percentiles(query, query.by), arguments)
    rest = (total["jobs"] if total else 0) - sum(row["jobs"] for row in found)
    return latency_report(query, found, total, rest, await _names(database, keys_in(query, found)))


def _percentiles(query: ReportQuery, by: Sequence[str]) -> str:
    """The least time that so many are not above, group by group."""
    names = columns_of(by)
    listed = "".join(f"{name}, " for name in names)
    groups = _groups(query) if by else ""
    split = f"PARTITION BY {', '.join(names)}" if by else ""
    order = "".join(f", {name} NULLS LAST" for name in names)
    return f"""
        {_SPANS}
        timed AS (
            SELECT {groups} (usage.at - wanted_at) / 1e6 AS took_s
            {_SOURCE} WHERE {_where(query)} AND wanted_at IS NOT NULL
        ),
        placed AS (
            SELECT {listed} took_s, row_number() OVER ({split} ORDER BY took_s) AS place, count(*) OVER ({split}) AS n
            FROM timed
        )
        SELECT {listed} max(n) AS jobs, min(took_s) FILTER (WHERE 2 * place >= n) AS p50_s,
               min(took_s) FILTER (WHERE 10 * place >= 9 * n) AS p90_s
        FROM placed GROUP BY {listed or "n, "} n ORDER BY jobs DESC {order} LIMIT :limit
    """


def _joined(row: Row) -> Row:
    """The row with its amounts put together."""
    scale = {name: row[f"{name}_whole"] * _NANOS + row[f"{name}_nanos"] for name in _PARTS}
    return row | {"pictures": row["pictured"]} | {name: Decimal(nanos).scaleb(-9) for name, nanos in scale.items()}


async def _names(database: Database, ids: Sequence[str]) -> dict[str, str]:
    query = "SELECT id AS key, name FROM api_key WHERE id IN (SELECT value FROM json_each(:ids))"
    return {row["key"]: row["name"] for row in await database.every(query, {"ids": json.dumps(ids)})} if ids else {}


def _groups(query: ReportQuery) -> str:
    return "".join(
        f"{_GROUPS.get(group) or f'json_extract(dimensions, :by_{place})'} AS g{place}, "
        for place, group in enumerate(query.by)
    )


def _arguments(query: ReportQuery) -> dict[str, Any]:
    where = query.where
    days = list(spans(query.first, query.last, query.zone))
    if "day" not in query.by:
        days = [(query.first, days[0][1], days[-1][2])]
    told = [(day.isoformat(), micros(start), micros(end)) for day, start, end in days]
    found: dict[str, Any] = {"spans": json.dumps(told), "limit": query.limit}
    found |= {name: getattr(where, name) for name in _FILTERS}
    found |= {f"by_{place}": _path(name) for place, group in enumerate(query.by) if (name := dimension_of(group))}
    for place, (name, value) in enumerate(sorted(where.dimensions.items())):
        found |= {f"name_{place}": _path(name), f"value_{place}": value}
    return found


def _path(dimension: str) -> str:
    return f"$.{json.dumps(dimension)}"


def _where(query: ReportQuery) -> str:
    where = query.where
    parts = [f"{name} = :{name}" for name in _FILTERS if getattr(where, name) is not None]
    parts += [f"json_extract(dimensions, :name_{place}) = :value_{place}" for place in range(len(where.dimensions))]
    return " AND ".join(parts) or "1"
