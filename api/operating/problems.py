"""What is wrong now, told from how everything stands: what it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import islice
from urllib.parse import urlencode

from msgspec import Struct

from api.money import in_words
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
    """How everything stands, as far as problems are told from it; ``names`` are those of keys, by their ids."""

    figures: Figures
    lanes: Sequence[Lane]
    workers: Sequence[WorkerStatus]
    quotas: Sequence[QuotaStatus] = ()
    names: Mapping[str, str] = {}
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
        _budgets(standing),
        _draining(standing),
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
    served = _served(standing.workers)
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
                advice=_who_serves(lane.name, standing.workers),
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


def budgets_used(quotas: Iterable[QuotaStatus]) -> list[QuotaStatus]:
    """The budgets that are nearly used, or used up: 20 at most."""
    used = (
        status
        for status in quotas
        if status.quota.kind is QuotaKind.SPEND and status.held + status.used >= BUDGET_SHARE * status.quota.most
    )
    return list(islice(used, _MOST_EACH))


def _budgets(standing: Standing) -> Iterator[Problem]:
    for status in budgets_used(standing.quotas):
        quota = status.quota
        taken = status.held + status.used
        owner = standing.names.get(quota.owner, quota.owner) if quota.owner_kind == "key" else quota.owner
        over = taken >= quota.most
        share = 100 if not quota.most else int(100 * taken / quota.most)
        yield Problem(
            severity="warning",
            code="budget_used" if over else "budget_nearly_used",
            what=f"{share}% of the budget of {quota.owner_kind} {owner} is taken"
            f" ({in_words(taken, quota.currency)} of {in_words(quota.most, quota.currency)})",
            advice="raise it, or tell its owner: submits are refused " + ("now" if over else "once it is used up"),
            link="/admin/budgets",
        )


def _draining(standing: Standing) -> Iterator[Problem]:
    served = _served(standing.workers)
    wanted = {lane.name for lane in standing.lanes if lane.queued and lane.paused_at is None} - served
    for worker in standing.workers:
        if worker.state in ("draining", "drained"):
            lacking = sorted(wanted.intersection(worker.lanes))
            when = "now: it holds nothing any more" if worker.state == "drained" else "once it is drained"
            yield Problem(
                severity="info",
                code="worker_draining",
                what=f"the worker on {worker.host} ({worker.device}) is {worker.state}",
                advice=f"resume it, or start another, for the jobs that wait: safelight workers resume {worker.id}"
                if lacking
                else f"stop it {when}, or: safelight workers resume {worker.id}",
                link=f"/admin/workers/{worker.id}",
            )


def _served(workers: Iterable[WorkerStatus]) -> set[str]:
    return {lane for worker in workers if worker.state == "serving" for lane in worker.lanes}


def _who_serves(lane: str, workers: Iterable[WorkerStatus]) -> str:
    """What to do for a lane that nobody serves: a worker that drains can do it at once."""
    start = f"start one: safelight worker --lanes {lane}"
    held = next((one for one in workers if one.state in ("draining", "drained") and lane in one.lanes), None)
    if held is None:
        return start
    return f"resume the one on {held.host}: safelight workers resume {held.id}; or {start.replace('one', 'another', 1)}"


def _waiting(count: int) -> str:
    return f"{_jobs(count)} {'waits' if count == 1 else 'wait'}"


def _jobs(count: int) -> str:
    return f"{count} job" if count == 1 else f"{count} jobs"


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"
