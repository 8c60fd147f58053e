"""``safelight costs``: what jobs cost, by team, model, key, day and the like."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from safelight.cli.consoles import err, out
from safelight.cli.exits import RefusedError, reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption

_OPTIONS = {"from": "--from", "to": "--to", "zone": "--zone", "by": "--by", "limit": "--limit", "key": "--key-id"}


def costs(
    by: Annotated[
        list[str] | None,
        typer.Option(help="day, model, key, team, customer, lane, device, cache or dim:NAME; up to three times."),
    ] = None,
    first: Annotated[
        str | None, typer.Option("--from", help="The first day, like 2026-11-01.", show_default="the 1st of the month")
    ] = None,
    last: Annotated[str | None, typer.Option("--to", help="The last day.", show_default="today")] = None,
    zone: Annotated[str | None, typer.Option(help="Whose days, like Europe/Berlin.", show_default="UTC")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="NAME=VALUE", help="Only this team, customer, model, lane, device, cache or dim.NAME."
        ),
    ] = None,
    key_id: Annotated[
        str | None, typer.Option("--key-id", "--of-key", help="Only this API key, by its id.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=5000, help="Rows at most; the rest is summed up.")] = 100,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, for spreadsheets.")] = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """Tell what jobs cost: all for an admin key, for others their own."""
    from safelight.cli.client.cost_look import show_costs
    from safelight.cli.client.http import Client
    from safelight.cli.client.quota_options import by_options

    params: dict[str, Any] = {"by": by or [], "limit": limit, "format": "csv" if as_csv else "json"}
    named = {"from": first, "to": last, "zone": zone, "key": key_id}
    params |= {name: value for name, value in named.items() if value is not None}
    with reported():
        if as_json and as_csv:
            raise RefusedError("name one of --json and --csv")
        params |= _only(only or [])
        with by_options(_OPTIONS), Client(url, key) as client:
            found = client.costs(params)
    if as_csv:
        typer.echo(found, nl=False)
    elif as_json:
        typer.echo(found)
    else:
        show_costs(found, out(), err())


def _only(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name in {"by", "limit", "format", "from", "to", "zone", "key"}:
            raise RefusedError(f"--only takes NAME=VALUE, like team=ads, and not {pair!r}")
        found[name] = value
    return found
