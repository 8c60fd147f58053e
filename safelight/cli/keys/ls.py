"""``safelight keys ls``: which API keys there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from jobstore.keys import KeyState
from safelight.cli.consoles import err, out
from safelight.cli.exits import reported
from safelight.cli.keys.options import CustomerOption, TeamOption
from safelight.cli.options import ConfigOption, JsonOption, settings_for

if TYPE_CHECKING:
    from jobstore.keys import ApiKey
    from jobstore.protocol import JobStore

_PAGE = 1000


def ls(
    team: TeamOption = None,
    customer: CustomerOption = None,
    text: Annotated[
        str | None, typer.Option(help="Only keys whose name, or secret's start, holds this.", show_default=False)
    ] = None,
    state: Annotated[KeyState | None, typer.Option("--state", help="Only keys in this state.")] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """List API keys, oldest first, those that count no more too."""
    from msgspec.structs import replace

    from jobstore.keys import KeyFilter
    from safelight.cli.keys.inside import in_store
    from safelight.cli.keys.look import plain, show_keys

    where = KeyFilter(limit=_PAGE, team=team, customer=customer, text=text, state=state)

    async def work(store: JobStore) -> list[ApiKey]:
        keys: list[ApiKey] = []
        while True:
            last = keys[-1].id if keys else None
            page = await store.list_keys(replace(where, after=last))
            keys += page
            if len(page) < _PAGE:
                return keys

    with reported():
        keys = in_store(settings_for(config), work)
    if as_json:
        out().print_json(data={"object": "list", "data": [plain(key) for key in keys], "next_cursor": None})
    elif keys:
        show_keys(keys, out())
    elif team or customer or text or state:
        err().print("No such keys.")
    else:
        err().print("No key was ever made: on loopback the API is open.")
