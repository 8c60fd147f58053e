"""``safelight audit``: who changed what."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from safelight.cli.consoles import err, out
from safelight.cli.exits import RefusedError, reported
from safelight.cli.options import ConfigOption, JsonOption, settings_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from jobstore.audit import AuditEntry, AuditPage
    from jobstore.protocol import JobStore


def audit(
    action: Annotated[str | None, typer.Option(help="Only this, such as key.revoked.", show_default=False)] = None,
    target: Annotated[
        str | None, typer.Option(help="Only what was done to this: an id, a lane.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="next_cursor of the page before.", show_default=False)] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show who changed keys, lanes and the like, newest first, straight from the store."""
    import msgspec

    from jobstore.audit import AuditFilter
    from safelight.cli.keys.inside import in_store

    where = AuditFilter(action=action, target=target, limit=limit, cursor=cursor)

    async def work(store: JobStore) -> AuditPage:
        try:
            return await store.list_audit(where)
        except ValueError as error:
            raise RefusedError(f"--cursor: {error}") from error

    with reported():
        page = in_store(settings_for(config), work)
    if as_json:
        out().print_json(data={"data": msgspec.to_builtins(page.entries), "next_cursor": page.next_cursor})
        return
    if not page.entries:
        err().print("Nothing of that kind was done." if action or target else "Nothing was done yet.")
        return
    out().print(_table(page.entries))
    if page.next_cursor:
        err().print(f"More:  --cursor {page.next_cursor}", markup=False, soft_wrap=True)


def _table(entries: Sequence[AuditEntry]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("WHEN", "WHO", "ACTION", "TARGET"):
        table.add_column(title, no_wrap=True)
    table.add_column("DETAILS", overflow="fold")
    for entry in entries:
        table.add_row(
            f"{entry.at:%Y-%m-%d %H:%M:%S}",
            escape(entry.actor),
            entry.action,
            escape(entry.target),
            escape(json.dumps(entry.details, ensure_ascii=False)),
        )
    return table
