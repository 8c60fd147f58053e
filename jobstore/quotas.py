"""Quotas: what a key, a team or a customer may spend, submit in a window of time, and have under way at once.

A quota counts in slices of time. What a job holds, and what it is charged in the end, counts in the slice in which it
was submitted. docs/budgets.md tells it from the user's side.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Literal, Protocol
from uuid import UUID
from zoneinfo import ZoneInfo, available_timezones

from msgspec import Struct

from jobstore.audit import Actor

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ROLLING_SLICES = 60
"""A rolling window is counted in so many slices, and the one it begins in counts as a whole: never too little."""

_PERIOD = re.compile(r"([1-9][0-9]{0,3})([smhdwMy])", re.ASCII)
_WORDS = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week", "M": "month", "y": "year"}
_ANY = {"1d": "24 hours", "1w": "7 days"}  # "any day" would be the calendar's
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST_ROLLING_S = 400 * 86_400

OwnerKind = Literal["key", "team", "customer"]
Owner = tuple[OwnerKind, str]


class QuotaKind(StrEnum):
    """What a quota limits: money, submits, or unfinished jobs."""

    SPEND = "spend"
    REQUESTS = "requests"
    CONCURRENCY = "concurrency"


class Quota(Struct, frozen=True, kw_only=True):
    """A limit: ``owner`` is a key's id, or the name of a team or a customer.

    ``most`` is an amount of ``currency`` for ``spend``, else a count. ``period`` is ``total``, or a number and one of
    s, m, h, d, w, M, y: a window that begins with the calendar's in ``zone`` (weeks on Monday), or one that rolls.
    """

    id: UUID
    owner_kind: OwnerKind
    owner: str
    kind: QuotaKind
    most: Decimal
    currency: str = ""
    period: str = "total"
    rolling: bool = False
    zone: str = "UTC"
    created_at: datetime = EPOCH

    @property
    def label(self) -> str:
        """In words, e.g. ``10 USD a month for the team ads``."""
        amount = f"{self.most:f}".rstrip("0").rstrip(".") if "." in f"{self.most:f}" else f"{self.most:f}"
        many = "" if self.most == 1 else "s"
        what = {
            QuotaKind.SPEND: f"{amount} {self.currency}",
            QuotaKind.REQUESTS: f"{amount} submit{many}",
            QuotaKind.CONCURRENCY: f"{amount} job{many} at once",
        }[self.kind]
        whose = "this key" if self.owner_kind == "key" else f"the {self.owner_kind} {self.owner}"
        return " ".join(filter(None, (what, window_words(self.period, rolling=self.rolling), f"for {whose}")))


class Slice(Struct, frozen=True, kw_only=True):
    """What counts in one slice of a quota's time."""

    starts_at: datetime
    held: Decimal
    used: Decimal

    @property
    def taken(self) -> Decimal:
        """Both together."""
        return self.held + self.used


class QuotaStatus(Struct, frozen=True, kw_only=True):
    """A quota as it stands: ``held`` for unfinished jobs, ``used`` for good, in the window that ends at ``ends_at``."""

    quota: Quota
    held: Decimal
    used: Decimal
    ends_at: datetime | None

    @property
    def left(self) -> Decimal:
        """What there still is to be had; 0 where a limit was lowered below what is taken."""
        return max(self.quota.most - self.held - self.used, Decimal(0))


class QuotaStore(Protocol):
    """What every job store does about quotas. With ``by``, a change and its audit entry are one transaction."""

    async def create_quota(self, quota: Quota, by: Actor | None = None) -> Quota:
        """Keep a quota; it concerns what is submitted from now on. Raises QuotaTakenError."""

    async def change_quota(self, quota_id: UUID, most: Decimal, by: Actor | None = None) -> Quota:
        """Set a quota's limit; one that is so already is no change. Raises QuotaNotFoundError."""

    async def delete_quota(self, quota_id: UUID, by: Actor | None = None) -> bool:
        """Delete a quota and all that was counted for it; False if there is none."""

    async def quotas(self, owners: Sequence[Owner] | None = None) -> tuple[QuotaStatus, ...]:
        """The quotas of these owners (None: all of them), oldest first, as they stand."""


def window_words(period: str, *, rolling: bool) -> str:
    """A window as it follows an amount: ``a month``, ``in 90 minutes``, ``in any 24 hours``; nothing for ``total``."""
    found = _PERIOD.fullmatch(period)
    if not found:
        return ""
    number, unit = int(found[1]), _WORDS[found[2]]
    many = unit if number == 1 else f"{number} {unit}s"
    if rolling:
        return f"in any {_ANY.get(period, many)}"
    return f"in {many}" if number > 1 else f"{'an' if unit == 'hour' else 'a'} {unit}"


def check_window(kind: QuotaKind, period: str, zone: str, *, rolling: bool) -> None:
    """Raise ValueError, which says what would do, unless the period can be counted."""
    if zone not in zones():
        raise ValueError(f"zone {zone!r} is not a time zone like Europe/Berlin")
    if period == "total":
        if rolling or kind is QuotaKind.REQUESTS:
            raise ValueError("period total has no window: name one like 1h, 1d or 1M")
        return
    if kind is QuotaKind.CONCURRENCY:
        raise ValueError("concurrency has no window: leave the period out")
    found = _PERIOD.fullmatch(period)
    if not found:
        raise ValueError("period is a number and one of s, m, h, d, w, M, y, like 1h or 30d; or total")
    number, unit = int(found[1]), found[2]
    if rolling:
        if unit not in _SECONDS or number * _SECONDS[unit] > _LONGEST_ROLLING_S:
            raise ValueError("a rolling period is given in s, m, h, d or w, and is 400d at most")
    elif unit in "dwMy" and number != 1:
        raise ValueError(f"a period of the calendar is one {unit}: write 1{unit}, or let it roll")
    elif unit in "smh" and 86_400 % (number * _SECONDS[unit]):
        raise ValueError("a period of the calendar divides a day, like 15m or 6h; else let it roll")


@lru_cache(maxsize=1)
def zones() -> frozenset[str]:
    """The names of all time zones."""
    return frozenset(available_timezones() - {"localtime", "Factory"})  # those are each machine's own


def slice_start(quota: Quota, at: datetime) -> datetime:
    """The slice in which something that happens at ``at`` counts."""
    if quota.period == "total":
        return EPOCH
    if not quota.rolling:
        return _window_start(quota, at)
    step = _slice_length(quota)
    return at - (at - EPOCH) % step


def counted_since(quota: Quota, at: datetime) -> datetime:
    """The first slice that counts at ``at``."""
    if quota.period == "total":
        return EPOCH
    return slice_start(quota, at - _length(quota)) if quota.rolling else _window_start(quota, at)


def window_end(quota: Quota, at: datetime) -> datetime | None:
    """When the window of the calendar ends, or when the slice of ``at`` leaves a rolling one; None for ``total``."""
    if quota.period == "total":
        return None
    if quota.rolling:
        return leaves_at(quota, slice_start(quota, at))
    return _next_start(quota, at)


def window_length(quota: Quota, at: datetime) -> timedelta | None:
    """How long the window of ``at`` is; the calendar's differ. None for ``total``."""
    if quota.period == "total":
        return None
    return _length(quota) if quota.rolling else _next_start(quota, at) - _window_start(quota, at)


def leaves_at(quota: Quota, starts_at: datetime) -> datetime:
    """When a slice of a rolling window counts no more."""
    return starts_at + _slice_length(quota) + _length(quota)


def _length(quota: Quota) -> timedelta:
    number, unit = _parts(quota)
    return timedelta(seconds=number * _SECONDS[unit])


def _slice_length(quota: Quota) -> timedelta:
    return max(_length(quota) / ROLLING_SLICES, timedelta(seconds=1))


def _window_start(quota: Quota, at: datetime) -> datetime:
    """The instant at which the calendar's window of ``at`` began.

    Windows of a day and more begin at local midnight, or at the first instant after it where a clock change leaves it
    out; shorter ones divide the hours since then, so that a day of 23 or 25 hours has one fewer or more of them.
    """
    number, unit = _parts(quota)
    zone = ZoneInfo(quota.zone)
    local = at.astimezone(zone)
    start_of_day = midnight(local, zone)
    if unit in "smh":
        step = timedelta(seconds=number * _SECONDS[unit])
        return start_of_day + (at - start_of_day) // step * step
    if unit == "w":
        return midnight(local - timedelta(days=local.weekday()), zone)
    if unit == "M":
        return midnight(local.replace(day=1), zone)
    if unit == "y":
        return midnight(local.replace(month=1, day=1), zone)
    return start_of_day


def _next_start(quota: Quota, at: datetime) -> datetime:
    number, unit = _parts(quota)
    start = _window_start(quota, at)
    zone = ZoneInfo(quota.zone)
    # Noon is safe from clock changes; from there the window's own rule finds its start.
    local = start.astimezone(zone)
    tomorrow = midnight(local.replace(hour=12) + timedelta(days=1), zone)
    if unit in "smh":
        return min(start + timedelta(seconds=number * _SECONDS[unit]), tomorrow)
    if unit == "d":
        return tomorrow
    if unit == "w":
        return midnight(local.replace(hour=12) + timedelta(days=7), zone)
    if unit == "M":
        return midnight((local.replace(day=15, hour=12) + timedelta(days=31)).replace(day=1), zone)
    return midnight(local.replace(year=local.year + 1, month=1, day=1, hour=12), zone)


def _parts(quota: Quota) -> tuple[int, str]:
    found = _PERIOD.fullmatch(quota.period)
    if found is None:
        raise ValueError(f"{quota.period!r} is no period")
    return int(found[1]), found[2]


def midnight(local: datetime, zone: ZoneInfo) -> datetime:
    """The first instant of a local day, in UTC."""
    wall = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0, tzinfo=zone)
    start = wall.astimezone(UTC)
    # Where midnight is left out, the wall time read with the earlier offset lies beyond the change: that is the start.
    if start.astimezone(zone).replace(tzinfo=None) != wall.replace(tzinfo=None):
        start = wall.replace(fold=1).astimezone(UTC)
        while start.astimezone(zone).date() < wall.date():
            start += timedelta(minutes=15)
    return start
