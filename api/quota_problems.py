"""What a submit is answered that a quota has no room for: which quota, what is left of it, and when there is room."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from litestar import Request, Response
from litestar.types import ExceptionHandlersMap

from api.money import in_words
from api.problems import Problem, ProblemError, respond
from api.quota_headers import rate_limit_headers, seconds_until
from jobstore.errors import QuotaExceededError
from jobstore.quotas import QuotaKind
from safelight.telemetry.metrics import SUBMITS_REFUSED

_LONGEST_RETRY_AFTER_S = 120  # SDKs that are told a longer time don't wait so long
_JOB_ENDS_S = 2  # nobody knows when the next job ends; renders take seconds
_WHO = "whoever looks after this server can raise it"


def refusal(error: QuotaExceededError, now: datetime) -> ProblemError:
    """The answer: 402 where money is short, 429 where time or the end of a job helps."""
    quota = error.status.quota
    wait_s = seconds_until(error.room_at, now)
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


def _come_again(wait_s: int | None) -> dict[str, str]:
    sensible = wait_s is not None and wait_s <= _LONGEST_RETRY_AFTER_S
    headers = {"x-should-retry": "true" if sensible else "false"}
    return headers if wait_s is None else headers | {"Retry-After": str(wait_s)}


def _no_money(error: QuotaExceededError) -> str:
    quota, currency = error.status.quota, error.status.quota.currency
    wanted = f"this job may come to {in_words(error.wanted, currency)}"
    if error.wanted > quota.most:
        return f"{wanted}, which is more than the whole budget of {quota.label}; {_WHO}"
    left = f"{in_words(error.status.left, currency)} are left of the budget of {quota.label}, and {wanted}"
    if error.room_at is None:
        return f"{left}; what unfinished jobs hold and don't spend comes back, and {_WHO}"
    return f"{left}; there is room again at {error.room_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}, and {_WHO}"


def _no_submit(error: QuotaExceededError, wait_s: int | None) -> str:
    reached = f"the limit of {error.status.quota.label} is reached"
    return reached if wait_s is None else f"{reached}; try again in {wait_s} seconds"


def _no_place(error: QuotaExceededError) -> str:
    return f"the limit of {error.status.quota.label} is reached; try again when one of them has ended"


def _over_quota(request: Request[Any, Any, Any], error: QuotaExceededError) -> Response[Problem]:
    SUBMITS_REFUSED.labels(f"quota_{error.status.quota.kind}").inc()
    return respond(request, refusal(error, datetime.now(UTC)))


QUOTA_HANDLERS: ExceptionHandlersMap = {QuotaExceededError: _over_quota}
