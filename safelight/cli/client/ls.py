"""``safelight jobs ls``: the latest jobs, or those that a filter names."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from safelight.cli.client.filters import as_query, filtered
from safelight.cli.consoles import err, out
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption


@filtered()
def ls(
    where: dict[str, Any],
    count: Annotated[bool, typer.Option("--count", help="Only count them, up to 10,000.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 20,
    cursor: Annotated[str | None, typer.Option(help="next_cursor of the page before.")] = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """List jobs, newest first."""
    from safelight.cli.client.http import Client
    from safelight.cli.client.look import jobs_table
    from safelight.cli.client.operators import count_jobs

    with Client(url, key) as client:
        if count:
            counted = count_jobs(client, as_query(where))
        else:
            page = client.jobs(**as_query(where), limit=limit, cursor=cursor)
    if count:
        if as_json:
            out().print_json(data=counted)
        else:
            out().print(f"{counted['count']}{'+' if counted['at_least'] else ''}", markup=False)
        return
    if as_json:
        out().print_json(data=page)
        return
    if page["data"]:
        out().print(jobs_table(page["data"]))
    elif not page["next_cursor"]:
        err().print("No such jobs." if where else "No jobs.")
    if page.get("stopped_early"):
        err().print("The search stopped early: it looks at so many jobs at a time.")
    if page["next_cursor"]:
        err().print(f"More:  --cursor {page['next_cursor']}", markup=False, soft_wrap=True)
