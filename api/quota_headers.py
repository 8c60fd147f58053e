"""How quotas stand, in headers: RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers (structured
fields of RFC 9651).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import ROUND_DOWN, Decimal

from jobstore.quotas import QuotaKind, QuotaStatus, window_length

_MICRO = 1_000_000
_MOST_TOLD = 8  # quotas in one answer: proxies take a few kilobytes of headers
_FRESH_S = 1.0  # the headers count in whole seconds


def rate_limit_headers(status: QuotaStatus, wait_s: int | None, now: datetime) -> dict[str, str]:
    """A quota's policy and what is left of it. Money is counted in millionths: the fields hold integers alone."""
    policy, left = _told(status, wait_s, now)
    return {"RateLimit-Policy": policy, "RateLimit": left}


def standing_headers(statuses: Sequence[QuotaStatus], now: datetime) -> dict[str, str]:
    """The same of several quotas as they stand, those of which the least share is left first, up to eight.

    Here ``t`` is the time to the window's end. No quotas, no headers.
    """
    scarce = sorted(statuses, key=lambda status: status.left / status.quota.most if status.quota.most else Decimal(0))
    told = [_told(status, seconds_until(status.ends_at, now), now) for status in scarce[:_MOST_TOLD]]
    if not told:
        return {}
    return {
        "RateLimit-Policy": ", ".join(policy for policy, _ in told),
        "RateLimit": ", ".join(left for _, left in told),
    }


class SubmitHeaders:
    """The headers of submits that are taken. For one event loop.

    Submits that were written together share what they were told of their quotas, and come here one after the other:
    for them the headers, which take longer than the rest of an answer, are made once.
    """

    def __init__(self) -> None:
        self._statuses: tuple[QuotaStatus, ...] = ()
        self._headers: dict[str, str] = {}
        self._made_at = -math.inf

    def of(self, statuses: tuple[QuotaStatus, ...]) -> dict[str, str]:
        """``standing_headers`` of them, now; not to be changed."""
        if not statuses:
            return {}
        now = time.monotonic()
        if statuses is not self._statuses or now - self._made_at >= _FRESH_S:
            self._statuses, self._made_at = statuses, now
            self._headers = standing_headers(statuses, datetime.now(UTC))
        return self._headers


def _told(status: QuotaStatus, wait_s: int | None, now: datetime) -> tuple[str, str]:
    quota = status.quota
    name = "-".join([quota.owner_kind, quota.kind, quota.period, *(["rolling"] if quota.rolling else [])])
    scale = _MICRO if quota.kind is QuotaKind.SPEND else 1
    policy = f'"{name}";q={_whole(quota.most * scale)}'
    if quota.kind is not QuotaKind.REQUESTS:
        unit = "jobs" if quota.kind is QuotaKind.CONCURRENCY else f"micro-{quota.currency.lower()}"
        policy += f';qu="{unit}"'
    length = window_length(quota, now)
    if length is not None:
        policy += f";w={math.ceil(length.total_seconds())}"
    return policy, f'"{name}";r={_whole(status.left * scale)}' + ("" if wait_s is None else f";t={wait_s}")


def seconds_until(at: datetime | None, now: datetime) -> int | None:
    """Whole seconds, at least 1; None where there is no such instant."""
    return None if at is None else max(1, math.ceil((at - now).total_seconds()))


def _whole(amount: Decimal) -> int:
    return int(amount.to_integral_value(ROUND_DOWN))
