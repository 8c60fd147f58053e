"""Reports of costs and times over the wire: decimals as strings, so that no cent is rounded."""

from __future__ import annotations

from datetime import date

from msgspec import Struct, field


class CostView(Struct, frozen=True, kw_only=True):
    """Sums in one currency. ``group`` holds the value of each group that ``by`` names (null: it has none).

    ``jobs`` counts those that got their pictures, ``attempts`` all that workers took up, hits and joined ones too.
    ``gpu_seconds`` is the device time of all attempts, of failed ones as well; ``saved`` what hits and joined jobs
    would have come to at most.
    """

    group: dict[str, str | None]
    currency: str
    jobs: int
    attempts: int
    pictures: int
    gpu_seconds: str
    charged: str
    saved: str


class CostList(Struct, frozen=True, kw_only=True):
    """A report of costs: the days ``first`` to ``last``, as ``zone`` counts them. ``rest`` sums up the rows beyond
    ``limit``, ``totals`` everything, a row a currency. ``names`` are those of keys, by the ids in the rows."""

    first: date
    last: date
    zone: str
    by: tuple[str, ...]
    data: tuple[CostView, ...]
    rest: tuple[CostView, ...]
    totals: tuple[CostView, ...]
    names: dict[str, str] = field(default_factory=dict)


class LatencyView(Struct, frozen=True, kw_only=True):
    """How long ``jobs`` took from their submit, or the start that they were scheduled for, to their pictures, in
    seconds: half of them at most ``p50_s``, nine in ten at most ``p90_s``."""

    group: dict[str, str | None]
    jobs: int
    p50_s: float
    p90_s: float


class LatencyList(Struct, frozen=True, kw_only=True):
    """A report of times. ``rest`` counts the jobs of rows beyond ``limit``; ``total`` is over all, null without any."""

    first: date
    last: date
    zone: str
    by: tuple[str, ...]
    data: tuple[LatencyView, ...]
    rest: int
    total: LatencyView | None
    names: dict[str, str] = field(default_factory=dict)
