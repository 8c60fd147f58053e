"""Acting on all jobs that a filter names: counted, asked, and done to what was counted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobstore.job import JobState
from jobstore.operating.jobs import LETTERS, UNFINISHED
from safelight.cli.client.filters import as_query
from safelight.cli.consoles import err, out
from safelight.cli.exits import RefusedError

if TYPE_CHECKING:
    from safelight.cli.client.http import Client

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only count what the filter names.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]
AllOption = Annotated[bool, typer.Option("--all", help="With --yes: also where there may be more than can be counted.")]

_A_CALL = 1000


@dataclass(frozen=True, kw_only=True)
class Act:
    """What the API does to many jobs. ``until`` is the field of the filter that keeps out what came after the count."""

    path: str
    states: tuple[JobState, ...]
    until: str
    question: str
    nothing: str
    done: str


CANCEL = Act(
    path="/v1/jobs/cancel",
    states=UNFINISHED,
    until="created_before",
    question="Cancel {}?",
    nothing="nothing was canceled",
    done="{} canceled, or to stop at their next step.",
)
REDRIVE = Act(
    path="/v1/jobs/redrive",
    states=LETTERS,
    until="finished_before",
    question="Queue {} anew?",
    nothing="nothing was queued",
    done="{} queued anew.",
)


@dataclass(frozen=True, kw_only=True)
class Sure:
    """What whoever calls answers beforehand: ``yes``, and even ``of_all``, where they can't be counted.

    ``limit`` is how many jobs are meant at most.
    """

    yes: bool
    of_all: bool
    limit: int | None = None


def act_on_many(client: Client, act: Act, where: dict[str, Any], sure: Sure, *, dry_run: bool, as_json: bool) -> None:
    """Count, ask, and act on what was counted. Raises RefusedError when the answer isn't yes."""
    from safelight.cli.client.operators import reach_jobs

    if dry_run:
        counted = _counted(client, act, where)
        if as_json:
            out().print_json(data=counted)
        else:
            out().print(f"{counted['count']}{'+' if counted['at_least'] else ''}", markup=False)
        return
    counted = reach_jobs(client, act.path, {**where, "dry_run": True})
    _ask(act, counted, sure)
    done = _done(client, act, where, counted, sure.limit)
    if as_json:
        out().print_json(data={"count": len(done), "job_ids": done})
        return
    for job_id in done:
        out().print(job_id, markup=False)
    err().print(act.done.format(_jobs(len(done))))


def _done(client: Client, act: Act, where: dict[str, Any], counted: dict[str, Any], limit: int | None) -> list[str]:
    """Act on some after some; the ids of all."""
    from safelight.cli.client.operators import reach_jobs

    # What came in since is not meant, and a number that is no more than a part confirms nothing; a limit does.
    meant = {"all": True} if counted["at_least"] or limit is not None else {"expected": counted["count"]}
    body = {**where, act.until: _earlier(counted["as_of"], where.get(act.until)), **meant}
    done: list[str] = []
    while limit is None or len(done) < limit:
        most = {} if limit is None else {"limit": min(limit - len(done), _A_CALL)}
        part = reach_jobs(client, act.path, {**body, **most})
        done += part["job_ids"]
        if part["next_cursor"] is None:
            break
        body["cursor"] = part["next_cursor"]
    return done


def _counted(client: Client, act: Act, where: dict[str, Any]) -> dict[str, Any]:
    """What the act would reach; for a key that may only look, what a list of it counts."""
    from safelight.cli.client.http import ForbiddenError
    from safelight.cli.client.operators import count_jobs, reach_jobs

    try:
        return reach_jobs(client, act.path, {**where, "dry_run": True})
    except ForbiddenError:
        return count_jobs(client, as_query({"states": [*act.states], **where}))


def _ask(act: Act, counted: dict[str, Any], sure: Sure) -> None:
    """Raise RefusedError unless what was counted is meant."""
    bounded = sure.limit is not None
    if sure.yes:
        if counted["at_least"] and not sure.of_all and not bounded:
            raise RefusedError(
                f"{act.nothing}: counting stopped at {counted['count']} jobs, and there may be more",
                "--all  with --yes means every job that matches",
            )
        return
    if bounded and (counted["at_least"] or counted["count"] > (sure.limit or 0)):
        question = act.question.format(f"up to {_jobs(sure.limit or 0)} of those that match")
    elif counted["at_least"]:
        many = act.question.format("all jobs that match")
        question = f"Counting stopped at {counted['count']} jobs, and there may be more. {many}"
    elif counted["count"]:
        question = act.question.format(_jobs(counted["count"]))
    else:
        return
    if not confirmed(question):
        raise RefusedError(act.nothing, "--yes  answers for scripts")


def _jobs(count: int) -> str:
    return f"{count} {'job' if count == 1 else 'jobs'}"


def _earlier(as_of: str, before: str | None) -> str:
    """The earlier of two times, as it was written."""
    return min((text for text in (as_of, before) if text), key=datetime.fromisoformat)


def confirmed(question: str) -> bool:
    """Whether the answer is yes; it isn't where nobody can be asked."""
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        typer.echo(err=True)  # the question's line has no end yet
        return False
