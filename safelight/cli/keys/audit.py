"""``safelight audit``: who changed what."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from safelight.cli.client.times import past_of
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
    actor: Annotated[
        str | None, typer.Option(help="Only what somebody did whose name holds this.", show_default=False)
    ] = None,
    after: Annotated[
        str | None, typer.Option(help="Only what was done from then on: 2h (ago), or a time (UTC).", show_default=False)
    ] = None,
    before: Annotated[
        str | None, typer.Option(help="Only what was done before: 2h (ago), or a time (UTC).", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="next_cursor of the page before.", show_default=False)] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show who changed keys, lanes and the like, newest first, straight from the store."""
    import msgspec
    from msgspec.structs import replace

    from api.key_schemas import AuditList
    from api.key_views import audit_view
    from jobstore.audit import AuditFilter
    from safelight.cli.keys.inside import in_store

    async def work(store: JobStore) -> AuditPage:
        try:
            return await store.list_audit(replace(where, cursor=cursor))
        except ValueError as error:
            raise RefusedError(f"--cursor: {error}") from error

    with reported():
        where = AuditFilter(
            action=action,
            target=target,
            actor=actor,
            after=_moment("--after", after),
            before=_moment("--before", before),
            limit=limit,
        )
        page = in_store(settings_for(config), work)
    if as_json:
        entries = tuple(audit_view(entry) for entry in page.entries)
        out().print_json(data=msgspec.to_builtins(AuditList(data=entries, next_cursor=page.next_cursor)))
        return
    if not page.entries:
        err().print("Nothing of that kind was done." if where != AuditFilter(limit=limit) else "Nothing was done yet.")
        return
    out().print(_table(page.entries))
    if page.next_cursor:
        err().print(f"More:  --cursor {page.next_cursor}", markup=False, soft_wrap=True)


def _moment(option: str, text: str | None) -> datetime | None:
    """A time that lies behind. Raises RefusedError."""
    told = past_of(option, text)
    return None if told is None else datetime.fromisoformat(told)


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
