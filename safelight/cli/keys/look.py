"""How keys look on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from rich.table import Table

    from jobstore.keys import ApiKey


def plain(key: ApiKey) -> dict[str, Any]:
    """A key for scripts."""
    found: dict[str, Any] = msgspec.to_builtins(key)
    return found


def keys_table(keys: Iterable[ApiKey]) -> Table:
    """One line a key."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("ID", no_wrap=True, min_width=36)
    for title in ("NAME", "SECRET", "SCOPES", "TEAM", "CUSTOMER", "WEIGHT", "CREATED", "STATE"):
        table.add_column(title)
    for key in keys:
        table.add_row(
            str(key.id),
            escape(key.name),
            escape(key.hint),
            "admin" if key.admin else ", ".join(key.scopes),
            escape(key.team or ""),
            escape(key.customer or ""),
            f"{key.weight:g}",
            moment(key.created_at),
            _state(key),
        )
    return table


def key_table(key: ApiKey) -> Table:
    """Everything about one key, one line a field."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    rows = {
        "id": str(key.id),
        "name": key.name,
        "secret": key.hint,
        "scopes": ", ".join(key.scopes),
        "models": "all" if key.models is None else ", ".join(key.models),
        "team": key.team or "",
        "customer": key.customer or "",
        "weight": f"{key.weight:g}",
        "digest": "with the pepper" if key.peppered else "without a pepper",
        "created": moment(key.created_at),
    }
    for name, value in rows.items():
        table.add_row(f"[dim]{name}[/]", escape(value))
    table.add_row("[dim]state[/]", _state(key))
    if key.revoked_at is None and key.previous_until is not None and key.previous_until > datetime.now(UTC):
        table.add_row("[dim]secret before[/]", f"counts until {moment(key.previous_until)}")
    return table


def moment(at: datetime) -> str:
    """A time to the minute, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


def _state(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return f"[red]revoked {moment(key.revoked_at)}[/]"
    if key.expires_at is None:
        return "[green]in force[/]"
    if key.expires_at <= datetime.now(UTC):
        return f"[red]expired {moment(key.expires_at)}[/]"
    return f"[green]in force[/] until {moment(key.expires_at)}"
