"""``safelight jobs show``: one job in full."""

from __future__ import annotations

from typing import Annotated

import typer

from safelight.cli.consoles import out
from safelight.cli.exits import reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption

JobArgument = Annotated[str, typer.Argument(metavar="ID", help="The job's id.")]


def show(job_id: JobArgument, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None) -> None:
    """Show everything about one job."""
    from safelight.cli.client.http import Client
    from safelight.cli.client.look import details

    with reported(), Client(url, key) as client:
        job = client.job(job_id)
    if as_json:
        out().print_json(data=job)
    else:
        out().print(details(job, client.url))
