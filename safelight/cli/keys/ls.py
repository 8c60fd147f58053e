"""``safelight keys ls``: which API keys there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from safelight.cli.consoles import err, out
from safelight.cli.exits import reported
from safelight.cli.options import ConfigOption, JsonOption, settings_for

if TYPE_CHECKING:
    from rich.table import Table

    from jobstore.protocol import ApiKey, JobStore


def ls(as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """List all API keys, oldest first, the revoked ones too."""
    import msgspec

    from safelight.cli.server.logs import configure_for
    from safelight.cli.server.stores import with_store

    async def work(store: JobStore) -> tuple[ApiKey, ...]:
        await store.migrate()
        return await store.list_keys()

    with reported():
        settings = settings_for(config)
        configure_for(settings.log, quiet_at_terminal=True)
        keys = with_store(settings, work)
    if as_json:
        out().print_json(data=msgspec.to_builtins(keys))
    elif keys:
        out().print(_table(keys))
    else:
        err().print("No key was ever made: on loopback the API is open.")


def _table(keys: tuple[ApiKey, ...]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("ID", no_wrap=True, min_width=36)
    for title in ("NAME", "SECRET", "ROLE", "WEIGHT", "CREATED", "REVOKED"):
        table.add_column(title)
    for key in keys:
        table.add_row(
            str(key.id),
            escape(key.name),
            escape(key.hint),
            "admin" if key.admin else "client",
            f"{key.weight:g}",
            f"{key.created_at:%Y-%m-%d %H:%M}",
            f"[red]{key.revoked_at:%Y-%m-%d %H:%M}[/]" if key.revoked_at else "",
        )
    return table
