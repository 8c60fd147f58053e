"""What reports are asked for, and what they tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from uuid import UUID

from msgspec import Struct, field

from jobstore.job import CacheOutcome
from jobstore.quotas import zones

PLAIN_GROUPS = ("day", "model", "key", "team", "customer", "lane", "device", "cache")
"""What rows can be told apart by, beside ``dim:NAME`` for each dimension."""
MOST_GROUPS = 3
MOST_ROWS = 5_000
MOST_DAYS = 1_100
_DIMENSION = re.compile(r"dim:[a-z0-9_-]{1,64}", re.ASCII)
_EARLIEST, _LATEST = date(1980, 1, 1), date(2999, 12, 31)


class Where(Struct, frozen=True, kw_only=True):
    """Which rows of the ledger count: those for which everything that is named holds."""

    key_id: UUID | None = None
    team: str | None = None
    customer: str | None = None
    model: str | None = None
    lane: str | None = None
    device: str | None = None
    cache: CacheOutcome | None = None
    dimensions: dict[str, str] = field(default_factory=dict)


EVERYTHING = Where()


class ReportQuery(Struct, frozen=True, kw_only=True):
    """What a report is about: the days ``first`` to ``last``, both whole and as ``zone`` counts them.

    ``by`` is up to three of ``PLAIN_GROUPS`` and ``dim:NAME``, in the order of a row's values; without it there is one
    row a currency. Of more than ``limit`` rows, those of the greatest sums are told and the rest is one line.
    """

    first: date
    last: date
    zone: str = "UTC"
    by: tuple[str, ...] = ()
    where: Where = EVERYTHING
    limit: int = 1_000


class CostRow(Struct, frozen=True, kw_only=True):
    """Sums over attempts, in one currency. ``values`` are the groups' (None: it has none; a day is ``2026-11-30``).

    ``jobs`` counts those that got their pictures, ``attempts`` all that workers took up, hits and joined ones too.
    ``gpu_seconds`` is the device time of all attempts, of failed ones as well. ``saved`` is what hits and joined jobs
    would have come to at most.
    """

    values: tuple[str | None, ...]
    currency: str
    jobs: int
    attempts: int
    pictures: int
    gpu_seconds: Decimal
    charged: Decimal
    saved: Decimal


class CostReport(Struct, frozen=True, kw_only=True):
    """Rows (by day where days are told apart, then dearest first), and what stands below the line.

    ``rest`` sums the rows that there was no room for, and ``totals`` everything: one row a currency, without values.
    ``names`` gives keys their names, by the id that stands in the rows.
    """

    rows: tuple[CostRow, ...]
    rest: tuple[CostRow, ...]
    totals: tuple[CostRow, ...]
    names: dict[str, str] = field(default_factory=dict)


class LatencyRow(Struct, frozen=True, kw_only=True):
    """How long ``jobs`` took from when they were wanted to when they had their pictures, in seconds.

    Half of them were not slower than ``p50_s``, nine in ten not than ``p90_s``. Both are times that a job took.
    """

    values: tuple[str | None, ...]
    jobs: int
    p50_s: float
    p90_s: float


class LatencyReport(Struct, frozen=True, kw_only=True):
    """Rows (by day where days are told apart, then those of most jobs first). ``rest`` counts the jobs of rows that
    there was no room for; ``total`` is over all jobs, None where there was none."""

    rows: tuple[LatencyRow, ...]
    rest: int
    total: LatencyRow | None
    names: dict[str, str] = field(default_factory=dict)


def check_query(query: ReportQuery) -> None:
    """Raise ValueError, which begins with the field's name, unless the query can be answered."""
    check_groups(query.by)
    if query.zone not in zones():
        raise ValueError("zone is a time zone like Europe/Berlin")
    if not _EARLIEST <= query.first <= _LATEST:
        raise ValueError(f"from lies between {_EARLIEST} and {_LATEST}")
    if not query.first <= query.last <= _LATEST:
        raise ValueError(f"to is not before from, and not after {_LATEST}")
    if (query.last - query.first).days >= MOST_DAYS:
        raise ValueError(f"to lies at most {MOST_DAYS} days from from")
    if not 1 <= query.limit <= MOST_ROWS:
        raise ValueError(f"limit lies between 1 and {MOST_ROWS}")


def check_groups(by: Sequence[str]) -> None:
    """Raise ValueError unless rows can be told apart by these."""
    if len(by) > MOST_GROUPS:
        raise ValueError(f"by names at most {MOST_GROUPS} groups")
    if len(set(by)) < len(by):
        raise ValueError("by names each group once")
    for group in by:
        if group not in PLAIN_GROUPS and not _DIMENSION.fullmatch(group):
            raise ValueError(f"by is one of {', '.join(PLAIN_GROUPS)}, or dim:NAME for a dimension")


def dimension_of(group: str) -> str | None:
    """The name of the dimension that ``dim:NAME`` names; None for the other groups."""
    return group.removeprefix("dim:") if group.startswith("dim:") else None
