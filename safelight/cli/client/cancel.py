"""``safelight jobs cancel``: stop a job, or all that a filter names."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from safelight.cli.client.filters import filtered
from safelight.cli.client.many import CANCEL, AllOption, DryRunOption, Sure, YesOption, act_on_many
from safelight.cli.consoles import err, out
from safelight.cli.exits import RefusedError
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption


@filtered(ended_after=None, ended_before=None)
def cancel(
    where: dict[str, Any],
    job_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="The job's id; none with a filter.")] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    all_of_them: AllOption = False,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """Cancel a job, or all that a filter names. A running one stops at its next denoising step."""
    from safelight.cli.client.http import Client

    if (job_id is None) is not bool(where):
        raise RefusedError("name either the id of a job or a filter, like --state queued --model flux")
    with Client(url, key) as client:
        if job_id is None:
            sure = Sure(yes=yes, of_all=all_of_them)
            act_on_many(client, CANCEL, where, sure, dry_run=dry_run, as_json=as_json)
            return
        job = client.cancel(job_id)
    if as_json:
        out().print_json(data=job)
        return
    out().print(job["state"])
    if job["state"] == "running":
        err().print("It stops at its next step.")
