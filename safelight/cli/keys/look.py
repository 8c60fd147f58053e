"""How keys look on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from safelight.cli.fitting import Column, show

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from jobstore.keys import ApiKey


def plain(key: ApiKey) -> dict[str, Any]:
    """A key for scripts, as the API tells it."""
    from api.key_views import key_view

    found: dict[str, Any] = msgspec.to_builtins(key_view(key))
    return found


def show_keys(keys: Sequence[ApiKey], console: Console) -> None:
    """One line a key; the id, the name, the scopes and the state always, the rest where there is room."""
    from rich.markup import escape

    show(
        [
            Column("ID", [str(key.id) for key in keys]),
            Column("NAME", [escape(key.name) for key in keys], loose=8),
            Column("SECRET", [escape(key.hint) for key in keys], rank=3),
            Column("SCOPES", ["admin" if key.admin else ", ".join(key.scopes) for key in keys], loose=8),
            Column("TEAM", [escape(key.team or "") for key in keys], rank=1),
            Column("CUSTOMER", [escape(key.customer or "") for key in keys], rank=2),
            Column("WEIGHT", [f"{key.weight:g}" for key in keys], rank=4, right=True),
            Column("CREATED", [moment(key.created_at) for key in keys], rank=5),
            Column("STATE", [_state(key) for key in keys], loose=8),
        ],
        console,
    )


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
        "used from": "anywhere" if key.networks is None else ", ".join(key.networks),
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
