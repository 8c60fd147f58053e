"""``safelight jobs cancel``: stop a job, or all that a filter names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobstore.operating.jobs import UNFINISHED
from safelight.cli.client.filters import (
    AfterOption,
    BeforeOption,
    DimensionsOption,
    HostOption,
    LaneOption,
    ModelOption,
    OwnerOption,
    StatesOption,
    TextOption,
    WorkerOption,
    as_query,
    named,
)
from safelight.cli.consoles import err, out
from safelight.cli.exits import RefusedError, reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption

if TYPE_CHECKING:
    from safelight.cli.client.http import Client


@dataclass(frozen=True, kw_only=True)
class Sure:
    """What whoever calls answers beforehand: ``yes``, and even ``of_all``, where they can't be counted."""

    yes: bool
    of_all: bool


def cancel(
    job_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="The job's id; none with a filter.")] = None,
    state: StatesOption = None,
    model: ModelOption = None,
    lane: LaneOption = None,
    of_key: OwnerOption = None,
    worker: WorkerOption = None,
    worker_host: HostOption = None,
    dim: DimensionsOption = None,
    text: TextOption = None,
    after: AfterOption = None,
    before: BeforeOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what the filter names.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    all_of_them: Annotated[
        bool, typer.Option("--all", help="With --yes: also where there may be more than can be counted.")
    ] = False,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """Cancel a job, or all that a filter names. A running one stops at its next denoising step."""
    from safelight.cli.client.http import Client

    with reported():
        where = named(
            states=state, model=model, lane=lane, key=of_key, worker=worker, host=worker_host, dimensions=dim,
            text=text, created_after=after, created_before=before,
        )  # fmt: skip
        if (job_id is None) is not bool(where):
            raise RefusedError("name either the id of a job or a filter, like --state queued --model flux")
        with Client(url, key) as client:
            if job_id is None:
                sure = Sure(yes=yes, of_all=all_of_them)
                _cancel_many(client, where, sure, dry_run=dry_run, as_json=as_json)
                return
            job = client.cancel(job_id)
    if as_json:
        out().print_json(data=job)
        return
    out().print(job["state"])
    if job["state"] == "running":
        err().print("It stops at its next step.")


def _cancel_many(client: Client, where: dict[str, Any], sure: Sure, *, dry_run: bool, as_json: bool) -> None:
    """Count, ask, and cancel what was counted. Raises RefusedError when the answer isn't yes."""
    from safelight.cli.client.operators import cancel_jobs

    counted = _counted(client, where) if dry_run else cancel_jobs(client, {**where, "dry_run": True})
    count = f"{counted['count']}{'+' if counted['at_least'] else ''}"
    if dry_run:
        if as_json:
            out().print_json(data=counted)
        else:
            out().print(count, markup=False)
        return
    _ask(counted, sure)
    # What came in since is not meant, and a number that is no more than a part confirms nothing.
    confirmed = {"all": True} if counted["at_least"] else {"expected": counted["count"]}
    body = {**where, "created_before": _earlier(counted["as_of"], where.get("created_before")), **confirmed}
    done: list[str] = []
    while True:
        part = cancel_jobs(client, body)
        done += part["job_ids"]
        if part["next_cursor"] is None:
            break
        body["cursor"] = part["next_cursor"]
    if as_json:
        out().print_json(data={"count": len(done), "job_ids": done})
        return
    for job_id in done:
        out().print(job_id, markup=False)
    err().print(f"{len(done)} {'job' if len(done) == 1 else 'jobs'} canceled, or to stop at their next step.")


def _counted(client: Client, where: dict[str, Any]) -> dict[str, Any]:
    """What a cancel would name; for a key that may only look, what a list of it counts."""
    from safelight.cli.client.http import ForbiddenError
    from safelight.cli.client.operators import cancel_jobs, count_jobs

    try:
        return cancel_jobs(client, {**where, "dry_run": True})
    except ForbiddenError:
        return count_jobs(client, as_query({"states": [*UNFINISHED], **where}))


def _ask(counted: dict[str, Any], sure: Sure) -> None:
    """Raise RefusedError unless what was counted is meant."""
    if sure.yes:
        if counted["at_least"] and not sure.of_all:
            raise RefusedError(
                f"nothing was canceled: counting stopped at {counted['count']} jobs, and there may be more",
                "--all  with --yes means every job that matches",
            )
        return
    if counted["at_least"]:
        question = f"Counting stopped at {counted['count']} jobs. Cancel every job that matches, however many?"
    elif counted["count"]:
        question = f"Cancel {counted['count']} {'job' if counted['count'] == 1 else 'jobs'}?"
    else:
        return
    if not _confirmed(question):
        raise RefusedError("nothing was canceled", "--yes  answers for scripts")


def _earlier(as_of: str, before: str | None) -> str:
    """The earlier of two times, as it was written."""
    return min((text for text in (as_of, before) if text), key=datetime.fromisoformat)


def _confirmed(question: str) -> bool:
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        return False
