"""``safelight jobs ls``: the latest jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from jobstore.job import JobState
from safelight.cli.consoles import err, out
from safelight.cli.exits import reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption


def ls(
    state: Annotated[JobState | None, typer.Option("--state", "-s", help="Only jobs in this state.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Only jobs of this model.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 20,
    cursor: Annotated[str | None, typer.Option(help="next_cursor of the page before.")] = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """List jobs, newest first."""
    from safelight.cli.client.http import Client
    from safelight.cli.client.look import jobs_table

    with reported(), Client(url, key) as client:
        page = client.jobs(state=state, model=model, limit=limit, cursor=cursor)
    if as_json:
        out().print_json(data=page)
        return
    if not page["data"]:
        err().print("No jobs." if state is None and model is None else "No such jobs.")
        return
    out().print(jobs_table(page["data"]))
    if page["next_cursor"]:
        err().print(f"More:  --cursor {page['next_cursor']}", markup=False, soft_wrap=True)
