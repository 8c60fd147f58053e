"""``safelight canary``: how canaries do beside their models, and which share they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from safelight.cli.consoles import err, out
from safelight.cli.exits import reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption

if TYPE_CHECKING:
    from rich.table import Table

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The canary's name in the settings.")]
_EXPECT = ("name", "canary_of", "share", "hour", "day")


def status(as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None) -> None:
    """Show each canary beside its model: success, times and cost of the last hour and day."""
    from safelight.cli.client.http import Client

    with reported(), Client(url, key) as client:
        found = client.ask("GET", "/v1/canaries", expect=("data",))["data"]
    if as_json:
        out().print_json(data={"object": "list", "data": found})
    elif found:
        out().print(_table(found))
    else:
        err().print("No canaries. Make a model one:  canary_of in its settings")


def set_share(
    name: NameArgument,
    share: Annotated[float, typer.Argument(min=0, max=1, help="The share of the jobs, from 0 to 1.")],
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = None,
) -> None:
    """Let a canary take a share of its model's jobs."""
    _change(name, "share", {"share": share}, url, key, as_json=as_json)


def promote(
    name: NameArgument, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None
) -> None:
    """Let a canary take all of its model's jobs, until the settings make it the model."""
    _change(name, "promote", None, url, key, as_json=as_json)


def rollback(
    name: NameArgument, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None
) -> None:
    """Let a canary take no job any more."""
    _change(name, "rollback", None, url, key, as_json=as_json)


def _change(name: str, how: str, body: dict[str, float] | None, url: str, key: str | None, *, as_json: bool) -> None:
    from safelight.cli.client.http import Client

    with reported(), Client(url, key) as client:
        sent: dict[str, Any] = {} if body is None else {"json": body}
        found = client.ask("POST", f"/v1/canaries/{quote(name, safe='')}/{how}", expect=_EXPECT, **sent)
    if as_json:
        out().print_json(data=found)
        return
    out().print(f"{found['share']:g}")
    err().print(f"{name} takes {found['share']:.3g} of the jobs of {found['canary_of']}", markup=False, soft_wrap=True)


def _table(found: Sequence[dict[str, Any]]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("MODEL", "SHARE", "OVER"):
        table.add_column(title, no_wrap=True)
    for title in ("SUCCESS", "RENDERS", "P50", "P90", "A PICTURE", "GPU S"):
        table.add_column(title, no_wrap=True, justify="right")
    for canary in found:
        for window in ("hour", "day"):
            for who, name in (("canary", canary["name"]), ("stable", canary["canary_of"])):
                share = f"{canary['share']:.1%}" if who == "canary" else ""
                table.add_row(escape(name), share, window, *_cells(canary[window][who]))
    return table


def _cells(figures: dict[str, Any]) -> list[str]:
    def shown(name: str, form: str) -> str:
        return "" if figures[name] is None else format(figures[name], form)

    return [
        shown("success_rate", ".1%"),
        str(figures["succeeded"] + figures["failed"]),
        shown("p50_s", ".2f"),
        shown("p90_s", ".2f"),
        figures["cost_per_picture"] or "",
        shown("gpu_seconds_per_picture", ".3f"),
    ]


canary = typer.Typer(help="Show canaries, and set the shares that they take.", no_args_is_help=True)
canary.command()(status)
canary.command("set")(set_share)
canary.command()(promote)
canary.command()(rollback)
