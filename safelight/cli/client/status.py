"""``safelight status``: how everything stands, and what is wrong."""

from __future__ import annotations

from typing import Annotated

import typer

from safelight.cli.consoles import out
from safelight.cli.exits import reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption


def status(
    zone: Annotated[str, typer.Option(help="The time zone whose midnight today's cost begins at.")] = "UTC",
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """Show what waits and runs, the last hour, devices, today's cost, and what is wrong now and what to do about it."""
    from safelight.cli.client import operators
    from safelight.cli.client.http import Client
    from safelight.cli.client.operator_look import overview_lines

    with reported(), Client(url, key) as client:
        found = operators.overview(client, zone)
    if as_json:
        out().print_json(data=found)
        return
    for line in overview_lines(found):
        out().print(line, soft_wrap=True)
