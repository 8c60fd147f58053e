"""``safelight jobs redrive``: queue many failed or dead jobs anew."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from safelight.cli.client.filters import filtered
from safelight.cli.client.many import REDRIVE, AllOption, DryRunOption, Sure, YesOption, act_on_many
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption


class LetterState(StrEnum):
    """States that a job can be redriven from (docs/job-states.md)."""

    DEAD = "dead"
    FAILED = "failed"


_States = Annotated[
    list[LetterState] | None,
    typer.Option("--state", "-s", help="Only these; may be repeated.", show_default="both"),
]


@filtered(state=_States)
def redrive(
    where: dict[str, Any],
    limit: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="How many at most, first ended first.", show_default="all")
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    all_of_them: AllOption = False,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """Queue failed and dead jobs anew, with fresh attempts. Needs an admin key where keys are wanted."""
    from safelight.cli.client.http import Client

    sure = Sure(yes=yes, of_all=all_of_them, limit=limit)
    with Client(url, key) as client:
        act_on_many(client, REDRIVE, where, sure, dry_run=dry_run, as_json=as_json)
