"""``safelight jobs cancel``: stop a job, or all that a filter names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    named,
)
from safelight.cli.consoles import err, out
from safelight.cli.exits import RefusedError, reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption

if TYPE_CHECKING:
    from safelight.cli.client.http import Client


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
                _cancel_many(client, where, dry_run=dry_run, yes=yes, as_json=as_json)
                return
            job = client.cancel(job_id)
    if as_json:
        out().print_json(data=job)
        return
    out().print(job["state"])
    if job["state"] == "running":
        err().print("It stops at its next step.")


def _cancel_many(client: Client, where: dict[str, Any], *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Count, ask, and cancel what was counted. Raises RefusedError when the answer isn't yes."""
    from safelight.cli.client.operators import cancel_jobs

    counted = cancel_jobs(client, {**where, "dry_run": True})
    count = f"{counted['count']}{'+' if counted['at_least'] else ''}"
    if dry_run:
        if as_json:
            out().print_json(data=counted)
        else:
            out().print(count, markup=False)
        return
    if not yes and counted["count"] and not _sure(f"Cancel {count} jobs?"):
        raise RefusedError("nothing was canceled", "--yes  answers for scripts")
    # What came in since is not meant.
    body = {"created_before": counted["as_of"], **where, "expected": counted["count"]}
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


def _sure(question: str) -> bool:
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        return False
