"""``safelight jobs watch``: one job until its end, or all of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from safelight.cli.consoles import out
from safelight.cli.exits import ExitCode, reported
from safelight.cli.options import DEFAULT_URL, KeyOption, UrlOption

if TYPE_CHECKING:
    from safelight.cli.client.http import Client

_EVERY_S = 1.0


def watch(
    job_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The job's id.", show_default="all jobs, live")
    ] = None,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """Watch a job until it ends, or the latest jobs until Ctrl-C."""
    from safelight.cli.client.http import Client
    from safelight.cli.client.progress import wait_for_end

    with reported(), Client(url, key) as client:
        try:
            if job_id is None:
                _watch_all(client)
            job = wait_for_end(client, client.job(str(job_id)))
        except KeyboardInterrupt:
            raise typer.Exit(ExitCode.INTERRUPTED if job_id else ExitCode.OK) from None
        out().print(job["state"])
        for image in job["images"]:
            out().print(client.url + image["url"], markup=False, soft_wrap=True)


def _watch_all(client: Client) -> None:
    """Show the latest jobs and refresh them until interrupted."""
    from rich.live import Live

    from safelight.cli.client.look import jobs_table

    rows = max(5, out().height - 2)
    with Live(console=out(), auto_refresh=False) as live:
        while True:
            live.update(jobs_table(client.jobs(limit=min(200, rows))["data"]), refresh=True)
            time.sleep(_EVERY_S)
