"""Where a report's numbers come from: sums by hours where they are kept for what is asked, else the ledger's rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobstore.postgres.rollup import TOOK
from jobstore.reports.model import ReportQuery, dimension_of
from jobstore.reports.rows import columns_of

FILTERS = ("key_id", "team", "customer", "model", "lane", "device", "cache")
AMOUNTS = "jobs, attempts, pictures, gpu_seconds, charged, saved"
SUM = ", ".join(f"sum({name}) AS {name}" for name in AMOUNTS.split(", "))
_MINUS = ", ".join(f"-{name}" for name in AMOUNTS.split(", "))
_ATTEMPT = """
(outcome = 'succeeded')::integer AS jobs, 1 AS attempts, pictures, gpu_seconds, charged,
CASE WHEN outcome = 'succeeded' AND cache <> 'miss' THEN price ELSE 0 END AS saved
"""
_BY_DEVICE = (
    "CASE outcome WHEN 'succeeded' THEN attempts ELSE 0 END AS jobs, attempts, pictures, gpu_seconds, charged, saved"
)
# What each table of sums tells apart.
_KNOWN = {
    "usage_by_owner": {"key_id", "team", "customer", "model", "lane"},
    "usage_by_device": {"model", "lane", "device", "cache"},
}
_DIMENSIONS = "usage_by_dimension"
# What rows are grouped by, and what is told of each group: a conversion a group costs nothing, one a row much.
_COLUMNS = {"key": "key_id"}
_TOLD = {
    "day": "((SELECT bounds FROM span)[{}] AT TIME ZONE %(zone)s)::date::text",
    "key": "{}::text",
    "lane": "nullif({}, '')",
    "device": "nullif({}, '')",
}
_GAPS = "gap CROSS JOIN LATERAL (SELECT * FROM usage WHERE at >= gap.since AND at < gap.until) AS attempt"


def table_of(query: ReportQuery) -> str | None:
    """The table of sums that tells apart what a query does; None where the ledger alone does."""
    wanted = {_COLUMNS.get(group, group) for group in query.by if group != "day" and dimension_of(group) is None}
    wanted |= {name for name in FILTERS if getattr(query.where, name) is not None}
    dimensions = {name for group in query.by if (name := dimension_of(group))} | set(query.where.dimensions)
    if dimensions:
        return _DIMENSIONS if len(dimensions) == 1 and wanted <= {"model"} else None
    return next((table for table, known in _KNOWN.items() if wanted <= known), None)


def leaves_out(query: ReportQuery, table: str | None) -> bool:
    """Says whether the table has no rows for some attempts that count: those without the dimension to group by."""
    return table == _DIMENSIONS and not query.where.dimensions


def spans(query: ReportQuery) -> str:
    """Common table expressions: ``span`` with its bounds, ``whole`` for hours with sums, ``gap`` for all others."""
    days = "%(first)s::date::timestamp, %(last)s::date::timestamp, interval '1 day'"
    if "day" not in query.by:
        days = "%(first)s::date::timestamp, %(first)s::date::timestamp, interval '1 day'"
    return f"""
    span AS MATERIALIZED (
        SELECT array_agg(day_start(day::date, %(zone)s) ORDER BY day)
               || day_start(%(last)s::date + 1, %(zone)s) AS bounds
        FROM generate_series({days}) AS day
    ),
    whole AS MATERIALIZED (SELECT hour, place FROM span CROSS JOIN LATERAL usage_summed(bounds)),
    gap AS MATERIALIZED (SELECT since, until FROM span CROSS JOIN LATERAL usage_gaps(bounds)),
    """


def amounts(query: ReportQuery) -> str:
    """Common table expressions of which the last, ``fact``, has the groups' columns, the currency and the amounts."""
    table = table_of(query)
    live = f"SELECT {_live(query.by)} currency, {_ATTEMPT} {_rows(query, table)}"
    if table is None:
        return f"fact AS ({live})"
    sums = f"SELECT {_hourly(query.by)} currency, {_BY_DEVICE if table == 'usage_by_device' else AMOUNTS}"
    hourly = f"{sums} FROM {table} JOIN whole USING (hour) WHERE {_where(query, table)}"
    if not leaves_out(query, table):
        return f"fact AS ({hourly} UNION ALL {live})"
    # Whatever has no row by dimension has none of that name: all there is, less what has one.
    named, nameless = "".join(f"{name}, " for name in columns_of(query.by)), _nameless(query.by)
    listed = f"GROUP BY {named} currency"
    return f"""
    dimensioned AS MATERIALIZED (SELECT {named} currency, {SUM} FROM ({hourly}) AS hourly {listed}),
    fact AS (
        SELECT * FROM dimensioned
        UNION ALL SELECT {nameless} currency, {_MINUS} FROM dimensioned
        UNION ALL SELECT {_hourly(query.by, nameless=True)} currency, {AMOUNTS}
        FROM usage_by_owner JOIN whole USING (hour) WHERE {_where(query, "usage_by_owner")}
        UNION ALL {live}
    )
    """


def times(query: ReportQuery, table: str | None, by: Sequence[str], *, nameless: bool = False) -> str:
    """A query for the groups' columns and ``took``, arrays of how many microseconds jobs took.

    ``nameless``: those that have no dimension of that name too, which ``leaves_out`` tells of.
    """
    names = columns_of(by)
    listed = f"GROUP BY {', '.join(names)}" if names else ""
    live = f"""
    SELECT {_live(by)} array_agg({TOOK}) AS took {_rows(query, table)} AND wanted_at IS NOT NULL {listed}
    """
    if table is None:
        return live
    parts = [f"SELECT {_hourly(by)} took {_timed(query, table)} AND took IS NOT NULL", live]
    if nameless:
        parts.append(f"SELECT {_hourly(by, nameless=True)} array_agg(one) AS took FROM ({_others(query, by)}) AS other")
        others = [name for name, group in zip(names, by, strict=True) if dimension_of(group) is None]
        parts[-1] += f" GROUP BY {', '.join(others)}" if others else ""
    return " UNION ALL ".join(parts)


def _others(query: ReportQuery, by: Sequence[str]) -> str:
    """All times, less those of jobs that have the dimension: each as often as it is left."""
    columns = "".join(f"{'place' if group == 'day' else group}, " for group in by if dimension_of(group) is None)
    each = "SELECT {columns} unnest(took) AS one {rows}"
    every_job, named = (
        each.format(columns=columns, rows=_timed(query, table)) for table in ("usage_by_owner", _DIMENSIONS)
    )
    return f"{every_job} EXCEPT ALL {named}"


def _timed(query: ReportQuery, table: str) -> str:
    return f"FROM {table} JOIN whole USING (hour) WHERE {_where(query, table)}"


def told(query: ReportQuery) -> str:
    """The groups' columns as they are told."""
    pairs = zip(columns_of(query.by), query.by, strict=True)
    return "".join(f"{_TOLD.get(group, '{}').format(name)} AS {name}, " for name, group in pairs)


def arguments(query: ReportQuery) -> dict[str, Any]:
    """What the queries name."""
    where = query.where
    dimensions = {f"by_{place}": name for place, group in enumerate(query.by) if (name := dimension_of(group))}
    wanted = {name: getattr(where, name) for name in FILTERS}
    for place, (name, value) in enumerate(sorted(where.dimensions.items())):
        wanted |= {f"name_{place}": name, f"value_{place}": value}
    only = next(iter([*dimensions.values(), *where.dimensions]), None)
    return {
        "first": query.first, "last": query.last, "zone": query.zone, "limit": query.limit, "dimension": only,
        **dimensions, **wanted,
    }  # fmt: skip


def _hourly(by: Sequence[str], *, nameless: bool = False) -> str:
    """The groups' columns of a table of sums."""
    columns = []
    for group in by:
        dimension = "NULL::text" if nameless else "value"
        columns.append("place" if group == "day" else dimension if dimension_of(group) else _COLUMNS.get(group, group))
    return "".join(f"{column} AS {name}, " for name, column in zip(columns_of(by), columns, strict=True))


def _nameless(by: Sequence[str]) -> str:
    """The groups' columns of rows that are grouped already, the dimension left out."""
    pairs = zip(columns_of(by), by, strict=True)
    return "".join("NULL::text, " if dimension_of(group) else f"{name}, " for name, group in pairs)


def _live(by: Sequence[str]) -> str:
    """The groups' columns of the ledger."""
    columns = []
    for place, group in enumerate(by):
        dimension = f"dimensions ->> %(by_{place})s"
        day = "width_bucket(at, (SELECT bounds FROM span))"
        columns.append(day if group == "day" else dimension if dimension_of(group) else _COLUMNS.get(group, group))
    return "".join(f"{column} AS {name}, " for name, column in zip(columns_of(by), columns, strict=True))


def _rows(query: ReportQuery, table: str | None) -> str:
    """The ledger's rows that a query counts: all, or those that have no sums."""
    dimensions = range(len(query.where.dimensions))
    wanted = [*_filters(query), *(f"dimensions ->> %(name_{place})s = %(value_{place})s" for place in dimensions)]
    if table is None:
        wanted = ["at >= day_start(%(first)s::date, %(zone)s)", "at < day_start(%(last)s::date + 1, %(zone)s)", *wanted]
    return f"FROM {'usage' if table is None else _GAPS} WHERE {' AND '.join(wanted) or 'true'}"


def _where(query: ReportQuery, table: str) -> str:
    """Which rows of a table of sums a query counts."""
    wanted = _filters(query)
    if table == _DIMENSIONS:
        wanted.append("name = %(dimension)s")
        wanted += ["value = %(value_0)s"] if query.where.dimensions else []
    return " AND ".join(wanted) or "true"


def _filters(query: ReportQuery) -> list[str]:
    return [f"{name} = %({name})s" for name in FILTERS if getattr(query.where, name) is not None]
