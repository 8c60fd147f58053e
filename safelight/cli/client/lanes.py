"""``safelight lanes``: how lanes stand, and pausing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from safelight.cli.consoles import err, out
from safelight.cli.exits import reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption

if TYPE_CHECKING:
    from rich.table import Table

    from safelight.cli.client.http import Lane

LaneArgument = Annotated[str, typer.Argument(metavar="LANE", help="The lane's name.")]


def ls(as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None) -> None:
    """List the lanes with what waits in them."""
    from safelight.cli.client.http import Client

    with reported(), Client(url, key) as client:
        lanes = client.lanes()
    if as_json:
        out().print_json(data={"object": "list", "data": lanes})
    else:
        out().print(_table(lanes))


def pause(
    lane: LaneArgument,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why, for whoever looks at the lane.")] = "",
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """Start no job of a lane until it is resumed. Submits are taken, and what runs goes on."""
    from safelight.cli.client.http import Client

    with reported(), Client(url, key) as client:
        paused = client.pause(lane, reason)
    if as_json:
        out().print_json(data=paused)
        return
    out().print("paused")
    err().print(f"{paused['queued']} wait; resume it:  safelight lanes resume {lane}", markup=False, soft_wrap=True)


def resume(
    lane: LaneArgument, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None
) -> None:
    """Start a lane's jobs again."""
    from safelight.cli.client.http import Client

    with reported(), Client(url, key) as client:
        resumed = client.resume(lane)
    if as_json:
        out().print_json(data=resumed)
    else:
        out().print("resumed")


def _table(lanes: Sequence[Lane]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from safelight.cli.client.look import span

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("LANE", "STATE"):
        table.add_column(title, no_wrap=True)
    for title in ("QUEUED", "RUNNING", "SCHEDULED", "OLDEST", "WORKERS", "DRAINS IN"):
        table.add_column(title, no_wrap=True, justify="right")
    table.add_column("REASON", overflow="ellipsis", no_wrap=True)
    for lane in lanes:
        table.add_row(
            escape(lane["name"]),
            "[yellow]paused[/]" if lane["paused"] else "[green]open[/]",
            *(str(lane[count]) for count in ("queued", "running", "scheduled")),
            span(lane["oldest_s"]) if lane["queued"] else "",
            str(lane["devices"]),
            "" if lane["drain_s"] is None or lane["paused"] else span(lane["drain_s"]),
            escape(lane["reason"]),
        )
    return table


lanes = typer.Typer(help="List, pause and resume lanes.", no_args_is_help=True)
for command in (ls, pause, resume):
    lanes.command()(command)
