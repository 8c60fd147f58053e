"""``safelight jobs redrive``: queue many failed or dead jobs anew."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from safelight.cli.client.times import past_of
from safelight.cli.consoles import err, out
from safelight.cli.exits import RefusedError, reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption


class LetterState(StrEnum):
    """States that a job can be redriven from (docs/job-states.md)."""

    DEAD = "dead"
    FAILED = "failed"


def redrive(
    state: Annotated[
        list[LetterState] | None,
        typer.Option("--state", "-s", help="Only these; may be repeated.", show_default="both"),
    ] = None,
    lane: Annotated[str | None, typer.Option(help="Only jobs of this lane.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Only jobs of this model.")] = None,
    error_code: Annotated[
        str | None, typer.Option("--error", help="Only jobs that ended with this error code.")
    ] = None,
    finished_after: Annotated[
        str | None, typer.Option("--after", help="Only jobs that ended after: 2h (ago), or a time (UTC).")
    ] = None,
    finished_before: Annotated[
        str | None,
        typer.Option("--before", help="Only jobs that ended before: 2h (ago), or a time (UTC)."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most, first ended first.")] = 1000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what the filter names.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """Queue failed and dead jobs anew, with fresh attempts. Needs an admin key where keys are wanted."""
    from safelight.cli.client.http import Client

    with reported():
        fields: dict[str, Any] = {
            "states": sorted(set(state or ())),
            "lane": lane,
            "model": model,
            "error_code": error_code,
            "finished_after": past_of("--after", finished_after),
            "finished_before": past_of("--before", finished_before),
        }
        where = {name: value for name, value in fields.items() if value}
        with Client(url, key) as client:
            if dry_run:
                _count(client.redrive({**where, "dry_run": True}), as_json=as_json)
                return
            if not yes:
                _confirm(where, limit)
            redriven = client.redrive({**where, "limit": limit})
    if as_json:
        out().print_json(data=redriven)
        return
    for job_id in redriven["job_ids"]:
        out().print(job_id, markup=False)
    count = redriven["count"]
    more = "; there may be more: run it again" if count == limit else ""
    err().print(f"{count} {'job' if count == 1 else 'jobs'} queued anew{more}.")


def _count(counted: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        out().print_json(data=counted)
    else:
        out().print(f"{counted['count']}{'+' if counted['at_least'] else ''}", markup=False)


def _confirm(where: dict[str, Any], limit: int) -> None:
    """Ask. Raises RefusedError when the answer isn't yes."""
    rest = {name: value for name, value in where.items() if name != "states"}
    terms = "".join(f", {name.replace('_', ' ')} {value}" for name, value in rest.items())
    states = " or ".join(where.get("states", list(LetterState)))
    try:
        sure = typer.confirm(f"Queue up to {limit} {states} jobs anew{terms}?", err=True)
    except typer.Abort:
        sure = False
    if not sure:
        raise RefusedError("nothing was queued", "--yes  answers for scripts")
