"""What is wrong now, told from how everything stands: what it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from urllib.parse import urlencode

from msgspec import Struct

from api.operating.schemas import Problem
from jobstore.operating.figures import Figures
from jobstore.operating.workers import WorkerStatus
from jobstore.protocol import Lane
from jobstore.quotas import QuotaKind, QuotaStatus
from jobstore.webhooks.model import Endpoint

QUEUE_OLD_S = 600.0
"""How long a job may wait before that is a problem, in seconds."""
BUDGET_SHARE = Decimal("0.9")
"""The share of a budget from which on it is nearly used."""

_NEW = timedelta(hours=1)
_ORDER = ("critical", "warning", "info")
_MOST_EACH = 20


class Standing(Struct, frozen=True, kw_only=True):
    """How everything stands, as far as problems are told from it."""

    figures: Figures
    lanes: Sequence[Lane]
    workers: Sequence[WorkerStatus]
    quotas: Sequence[QuotaStatus] = ()
    endpoints: Sequence[Endpoint] = ()
    broker_away: bool = False


def problems_of(standing: Standing) -> tuple[Problem, ...]:
    """What is wrong, the worst first; of each kind 20 at most."""
    kinds = (
        _broker(standing),
        _silent_workers(standing.workers),
        _lanes(standing),
        _letters(standing.figures),
        _endpoints(standing.endpoints),
        _budgets(standing.quotas),
        _draining(standing.workers),
    )
    found = [problem for kind in kinds for problem in _first(kind)]
    return tuple(sorted(found, key=lambda problem: _ORDER.index(problem.severity)))


def _first(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem, _ in zip(problems, range(_MOST_EACH), strict=False)]


def _broker(standing: Standing) -> Iterator[Problem]:
    if standing.broker_away:
        yield Problem(
            severity="critical",
            code="broker_away",
            what="the broker can't be reached: workers look for jobs now and then instead of hearing bells",
            advice="see that RabbitMQ runs and that SAFELIGHT_BROKER names it; no job is lost meanwhile",
            link=None,
        )


def _silent_workers(workers: Sequence[WorkerStatus]) -> Iterator[Problem]:
    for worker in workers:
        if not worker.alive and worker.held:
            yield Problem(
                severity="critical",
                code="worker_silent",
                what=f"the worker on {worker.host} ({worker.device}) has been silent for {_span(worker.silent_s)} and"
                f" held {_jobs(worker.held)}",
                advice="its jobs go to another worker once their leases are taken back; see its log, and start it anew",
                link=f"/admin/workers/{worker.id}",
            )


def _lanes(standing: Standing) -> Iterator[Problem]:
    served = {lane for worker in standing.workers if worker.state == "serving" for lane in worker.lanes}
    for lane in standing.lanes:
        link = "/admin/jobs?" + urlencode({"state": "queued", "lane": lane.name})
        if not lane.queued:
            continue
        if lane.paused_at is not None:
            why = f" ({lane.reason})" if lane.reason else ""
            yield Problem(
                severity="warning",
                code="lane_paused",
                what=f"the lane {lane.name} is paused{why} and {_waiting(lane.queued)}",
                advice=f"resume it when that is over: safelight lanes resume {lane.name}",
                link="/admin/lanes",
            )
        elif lane.name not in served:
            yield Problem(
                severity="critical",
                code="no_worker",
                what=f"no live worker takes jobs of the lane {lane.name}, and {_waiting(lane.queued)}",
                advice=f"start one: safelight worker --lanes {lane.name}; or resume one that drains",
                link="/admin/workers",
            )
        elif lane.oldest_s > QUEUE_OLD_S:
            yield Problem(
                severity="warning",
                code="queue_old",
                what=f"a job of the lane {lane.name} has been waiting for {_span(lane.oldest_s)}",
                advice="add workers to the lane, or cancel what nobody needs any more",
                link=link,
            )


def _letters(figures: Figures) -> Iterator[Problem]:
    if figures.dead:
        new = figures.letter_at is not None and figures.at - figures.letter_at < _NEW
        yield Problem(
            severity="warning" if new else "info",
            code="dead_letters",
            what=f"{_jobs(figures.dead)} died in the last 24 hours: their attempts or rescues are used up",
            advice="mend the cause that their errors tell, then: safelight jobs redrive --state dead",
            link="/admin/jobs?state=dead",
        )


def _endpoints(endpoints: Sequence[Endpoint]) -> Iterator[Problem]:
    for endpoint in endpoints:
        if endpoint.disabled_at is None and endpoint.failing_since is None:
            continue
        if endpoint.disabled_at is not None and not endpoint.reason:
            continue  # its owner wants it so
        disabled = endpoint.disabled_at is not None
        yield Problem(
            severity="warning",
            code="webhook_disabled" if disabled else "webhook_failing",
            what=f"the webhook {endpoint.id} {'was disabled: ' + endpoint.reason if disabled else 'is failing'}",
            advice=f"mend its receiver, then: safelight webhooks {'enable' if disabled else 'test'} {endpoint.id}",
            link=f"/admin/webhooks/{endpoint.id}",
        )


def _budgets(quotas: Sequence[QuotaStatus]) -> Iterator[Problem]:
    for status in quotas:
        quota = status.quota
        taken = status.held + status.used
        if quota.kind is not QuotaKind.SPEND or taken < BUDGET_SHARE * quota.most:
            continue
        over = taken >= quota.most
        share = 100 if not quota.most else int(100 * taken / quota.most)
        yield Problem(
            severity="warning",
            code="budget_used" if over else "budget_nearly_used",
            what=f"{share}% of the budget of {quota.owner_kind} {quota.owner} is taken"
            f" ({taken.normalize():f} of {quota.most.normalize():f} {quota.currency})",
            advice="raise it, or tell its owner: submits are refused " + ("now" if over else "once it is used up"),
            link="/admin/budgets",
        )


def _draining(workers: Sequence[WorkerStatus]) -> Iterator[Problem]:
    for worker in workers:
        if worker.state in ("draining", "drained"):
            when = "now: it holds nothing any more" if worker.state == "drained" else "once it is drained"
            yield Problem(
                severity="info",
                code="worker_draining",
                what=f"the worker on {worker.host} ({worker.device}) is {worker.state}",
                advice=f"stop it {when}, or: safelight workers resume {worker.id}",
                link=f"/admin/workers/{worker.id}",
            )


def _waiting(count: int) -> str:
    return f"{_jobs(count)} {'waits' if count == 1 else 'wait'}"


def _jobs(count: int) -> str:
    return f"{count} job" if count == 1 else f"{count} jobs"


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"
