"""Windows of quotas: the calendar's in any time zone, and rolling ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobstore.errors import QuotaExceededError
from jobstore.ids import uuid7
from jobstore.quotas import (
    ROLLING_SLICES,
    Quota,
    QuotaKind,
    Slice,
    check_window,
    counted_since,
    leaves_at,
    slice_start,
    window_end,
)
from jobstore.rules.quotas import Admission
from tests.contract.making import new_job, new_quota

# With changes at midnight, by half an hour, a day left out, a quarter of an hour off.
ZONES = (
    "UTC", "Europe/Berlin", "America/Sao_Paulo", "America/Havana", "Africa/Cairo", "Asia/Beirut", "Australia/Lord_Howe",
    "Pacific/Apia", "Asia/Kathmandu",
)  # fmt: skip
PERIODS = ("30s", "15m", "1h", "6h", "1d", "1w", "1M", "1y")
INSTANTS = st.datetimes(datetime(2011, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
TICK = timedelta(microseconds=1)


def at(text: str) -> datetime:
    """An instant."""
    return datetime.fromisoformat(text)


def quota(period: str, zone: str = "UTC", *, rolling: bool = False, **fields: Any) -> Quota:
    """A quota of that window."""
    return new_quota(period=period, zone=zone, rolling=rolling, **fields)


@given(st.sampled_from(PERIODS), st.sampled_from(ZONES), INSTANTS)
def test_windows_of_the_calendar_follow_each_other_without_a_gap(period: str, zone: str, instant: datetime) -> None:
    """Each instant is in one window, and the end of that is the start of the next."""
    that = quota(period, zone)
    start, end = slice_start(that, instant), window_end(that, instant)
    assert end is not None
    assert start <= instant < end
    assert slice_start(that, start) == start == slice_start(that, end - TICK) == counted_since(that, instant)
    assert slice_start(that, end) == end


@pytest.mark.parametrize(
    ("period", "zone", "instant", "start", "end"),
    [
        ("1d", "Europe/Berlin", "2026-03-29T12:00Z", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),  # 23 hours
        ("1d", "Europe/Berlin", "2026-10-25T12:00Z", "2026-10-24T22:00Z", "2026-10-25T23:00Z"),  # 25 hours
        ("1M", "America/New_York", "2026-11-15T00:00Z", "2026-11-01T04:00Z", "2026-12-01T05:00Z"),
        ("1w", "UTC", "2026-11-29T23:59Z", "2026-11-23T00:00Z", "2026-11-30T00:00Z"),
        ("1d", "America/Havana", "2026-03-08T12:00Z", "2026-03-08T05:00Z", "2026-03-09T04:00Z"),  # no midnight
        ("1h", "UTC", "2026-01-01T10:59:59Z", "2026-01-01T10:00Z", "2026-01-01T11:00Z"),
        ("6h", "Europe/Berlin", "2026-10-25T22:30Z", "2026-10-25T22:00Z", "2026-10-25T23:00Z"),  # the 25th hour
    ],
)
def test_windows_that_clocks_make_longer_or_shorter(period: str, zone: str, instant: str, start: str, end: str) -> None:
    """A day has 23, 24 or 25 hours."""
    that = quota(period, zone)
    assert slice_start(that, at(instant)) == at(start)
    assert window_end(that, at(instant)) == at(end)


@given(st.sampled_from(["10s", "1m", "90m", "1d", "30d"]), INSTANTS, st.floats(0, 1))
def test_a_rolling_window_forgets_nothing_too_early(period: str, instant: datetime, share: float) -> None:
    """What happened within the window counts; beyond it, what is more than a slice older does not."""
    that = quota(period, rolling=True)
    length = leaves_at(that, instant) - instant
    window = {"10s": 10, "1m": 60, "90m": 5400, "1d": 86_400, "30d": 30 * 86_400}[period]
    earlier = instant - timedelta(seconds=window * share)
    assert slice_start(that, earlier) >= counted_since(that, instant)
    assert leaves_at(that, slice_start(that, earlier)) > instant - TICK
    assert length <= timedelta(seconds=window + max(1, window / ROLLING_SLICES))
    later = leaves_at(that, slice_start(that, earlier))
    assert slice_start(that, earlier) < counted_since(that, later)


@pytest.mark.parametrize(
    ("kind", "period", "zone", "rolling", "said"),
    [
        ("spend", "1x", "UTC", False, "number and one of"),
        ("spend", "0d", "UTC", False, "number and one of"),
        ("spend", "2d", "UTC", False, "write 1d"),
        ("spend", "7h", "UTC", False, "divides a day"),
        ("spend", "1M", "UTC", True, "s, m, h, d or w"),
        ("spend", "401d", "UTC", True, "400d at most"),
        ("spend", "1d", "Berlin", False, "time zone"),
        ("requests", "total", "UTC", False, "no window"),
        ("spend", "total", "UTC", True, "no window"),
        ("concurrency", "1d", "UTC", False, "leave the period out"),
    ],
)
def test_a_window_that_can_t_be_counted_is_refused_with_words(
    kind: str, period: str, zone: str, rolling: bool, said: str
) -> None:
    """Which say what would do."""
    with pytest.raises(ValueError, match=said):
        check_window(QuotaKind(kind), period, zone, rolling=rolling)


@pytest.mark.parametrize(
    ("kind", "period", "rolling"),
    [("spend", "total", False), ("spend", "1M", False), ("spend", "30d", True), ("requests", "15m", False),
     ("requests", "1s", True), ("concurrency", "total", False)],
)  # fmt: skip
def test_windows_that_can_be_counted(kind: str, period: str, rolling: bool) -> None:
    """Nothing is said."""
    check_window(QuotaKind(kind), period, "Europe/Berlin", rolling=rolling)


def test_who_is_refused_hears_when_there_is_room() -> None:
    """At the window's end, or when enough of a rolling one has left it; never for what is more than all."""
    now = at("2026-05-01T12:00:30Z")
    rolling = quota("1m", rolling=True, most=3, kind="requests")
    slices = [Slice(starts_at=at(f"2026-05-01T12:00:{second}Z"), held=Decimal(0), used=Decimal(count))
              for second, count in (("05", 1), ("20", 2))]  # fmt: skip
    gate = Admission([rolling], {rolling.id: slices}, now)
    with pytest.raises(QuotaExceededError) as refused:
        gate.admit(new_job(team="ads"), [("team", "ads")], waits=True)
    assert refused.value.room_at == at("2026-05-01T12:01:06Z")
    daily = quota("1d", most=1)
    for price, room_at in ((Decimal("0.6"), at("2026-05-02T00:00:00Z")), (Decimal(2), None)):
        gate = Admission([daily], {daily.id: [Slice(starts_at=now, held=Decimal("0.5"), used=Decimal(0))]}, now)
        with pytest.raises(QuotaExceededError) as refused:
            gate.admit(new_job(team="ads", price=price), [("team", "ads")], waits=True)
        assert refused.value.room_at == room_at


def test_one_gate_lets_in_one_after_the_other() -> None:
    """Its own bookings count, and come out a row a slice."""
    now = at("2026-05-01T12:00:30Z")
    money, jobs = quota("1M", most=1), new_quota(most=2, kind="concurrency", id=uuid7())
    gate = Admission([money, jobs], {}, now)
    for _ in range(2):
        gate.admit(new_job(team="ads", price=Decimal("0.4")), [("team", "ads")], waits=True)
    with pytest.raises(QuotaExceededError) as refused:
        gate.admit(new_job(team="ads", price=Decimal("0.1")), [("team", "ads")], waits=True)
    assert refused.value.status.quota == jobs
    assert {(booking.held, booking.used) for booking in gate.bookings} == {
        (Decimal("0.8"), Decimal(0)),
        (Decimal(2), Decimal(0)),
    }


@pytest.mark.parametrize(
    ("most", "window", "words"),
    [
        (6, {"kind": "requests", "period": "1m"}, "6 submits a minute"),
        (1, {"kind": "requests", "period": "1h"}, "1 submit an hour"),
        (6, {"kind": "requests", "period": "90m"}, "6 submits in 90 minutes"),
        (6, {"kind": "requests", "period": "90m", "rolling": True}, "6 submits in any 90 minutes"),
        (6, {"kind": "requests", "period": "1m", "rolling": True}, "6 submits in any minute"),
        (10, {"period": "1M"}, "10 USD a month"),
        (5, {"period": "24h", "rolling": True}, "5 USD in any 24 hours"),
        (5, {"period": "1d", "rolling": True}, "5 USD in any 24 hours"),
        (5, {}, "5 USD"),
        (2, {"kind": "concurrency"}, "2 jobs at once"),
    ],
)
def test_a_quota_in_words(most: int, window: dict[str, Any], words: str) -> None:
    """As one says it."""
    quota = new_quota(**{"most": most, **window})
    assert quota.label == f"{words} for the team ads"
