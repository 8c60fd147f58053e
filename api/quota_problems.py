"""What a submit is answered that a quota has no room for: which quota, what is left of it, and when there is room.
And how quotas stand, in headers.

The headers RateLimit-Policy and RateLimit are those of draft-ietf-httpapi-ratelimit-headers (structured fields of
RFC 9651).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import ROUND_DOWN, Decimal
from typing import Any

from litestar import Request, Response
from litestar.types import ExceptionHandlersMap

from api.problems import Problem, ProblemError, respond
from api.views import plain_amount
from jobstore.errors import QuotaExceededError
from jobstore.quotas import QuotaKind, QuotaStatus, window_length
from safelight.telemetry.metrics import SUBMITS_REFUSED

_LONGEST_RETRY_AFTER_S = 120  # SDKs that are told a longer time don't wait so long
_JOB_ENDS_S = 2  # nobody knows when the next job ends; renders take seconds
_MICRO = 1_000_000
_MOST_TOLD = 8  # quotas in one answer: proxies take a few kilobytes of headers


def refusal(error: QuotaExceededError, now: datetime) -> ProblemError:
    """The answer: 402 where money is short, 429 where time or the end of a job helps."""
    quota = error.status.quota
    wait_s = _until(error.room_at, now)
    if quota.kind is QuotaKind.SPEND:
        status, code, detail, headers = 402, "budget_exceeded", _no_money(error), {"x-should-retry": "false"}
    elif quota.kind is QuotaKind.CONCURRENCY:
        wait_s = _JOB_ENDS_S if error.wanted <= quota.most else None
        status, code, detail = 429, "too_many_jobs", _no_place(error)
        headers = _come_again(wait_s)
    else:
        status, code, detail = 429, "rate_limited", _no_submit(error, wait_s)
        headers = _come_again(wait_s)
    return ProblemError(status, code, detail, headers=headers | rate_limit_headers(error.status, wait_s, now))


def rate_limit_headers(status: QuotaStatus, wait_s: int | None, now: datetime) -> dict[str, str]:
    """A quota's policy and what is left of it. Money is counted in millionths: the fields hold integers alone."""
    policy, left = _told(status, wait_s, now)
    return {"RateLimit-Policy": policy, "RateLimit": left}


def standing_headers(statuses: Sequence[QuotaStatus], now: datetime) -> dict[str, str]:
    """The same of several quotas as they stand, those of which the least share is left first, up to eight.

    Here ``t`` is the time to the window's end. No quotas, no headers.
    """
    scarce = sorted(statuses, key=lambda status: status.left / status.quota.most if status.quota.most else Decimal(0))
    told = [_told(status, _until(status.ends_at, now), now) for status in scarce[:_MOST_TOLD]]
    if not told:
        return {}
    return {
        "RateLimit-Policy": ", ".join(policy for policy, _ in told),
        "RateLimit": ", ".join(left for _, left in told),
    }


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


def _until(at: datetime | None, now: datetime) -> int | None:
    return None if at is None else max(1, math.ceil((at - now).total_seconds()))


def _come_again(wait_s: int | None) -> dict[str, str]:
    sensible = wait_s is not None and wait_s <= _LONGEST_RETRY_AFTER_S
    headers = {"x-should-retry": "true" if sensible else "false"}
    return headers if wait_s is None else headers | {"Retry-After": str(wait_s)}


def _no_money(error: QuotaExceededError) -> str:
    quota, currency = error.status.quota, error.status.quota.currency
    wanted = f"this job may come to {plain_amount(error.wanted)} {currency}"
    if error.wanted > quota.most:
        return f"{wanted}, which is more than the whole budget of {quota.label}"
    left = f"{plain_amount(error.status.left)} {currency} are left of the budget of {quota.label}, and {wanted}"
    if error.room_at is None:
        return f"{left}; what unfinished jobs hold and don't spend comes back"
    return f"{left}; there is room again at {error.room_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _no_submit(error: QuotaExceededError, wait_s: int | None) -> str:
    reached = f"the limit of {error.status.quota.label} is reached"
    return reached if wait_s is None else f"{reached}; try again in {wait_s} seconds"


def _no_place(error: QuotaExceededError) -> str:
    return f"the limit of {error.status.quota.label} is reached; try again when one of them has ended"


def _whole(amount: Decimal) -> int:
    return int(amount.to_integral_value(ROUND_DOWN))


def _over_quota(request: Request[Any, Any, Any], error: QuotaExceededError) -> Response[Problem]:
    SUBMITS_REFUSED.labels(f"quota_{error.status.quota.kind}").inc()
    return respond(request, refusal(error, datetime.now(UTC)))


QUOTA_HANDLERS: ExceptionHandlersMap = {QuotaExceededError: _over_quota}
