"""How deliveries of webhooks look on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from safelight.cli.fitting import Column, show

if TYPE_CHECKING:
    from rich.console import Console

    from safelight.cli.client.webhook_http import Delivery

_COLOURS = {"pending": "yellow", "delivered": "green", "failed": "red"}


def show_deliveries(found: Sequence[Delivery], hosts: Sequence[str], console: Console) -> bool:
    """Print them, to fit; True where there was no room for ids."""
    from rich.markup import escape

    def last(delivery: Delivery) -> str:
        return escape(delivery["error"] or (str(delivery["status"]) if delivery["status"] else ""))

    return show(
        [
            Column("ID", [delivery["id"] for delivery in found], rank=1),
            Column("TIME", [_moment(delivery["created_at"]) for delivery in found]),
            Column("EVENT", [escape(delivery["type"].removeprefix("job.")) for delivery in found], loose=9),
            Column("TO", [escape(host) for host in hosts], loose=20),
            Column("WEBHOOK", [(delivery["webhook_id"] or "")[:8] or "a job's" for delivery in found]),
            Column("STATE", [_state(delivery["state"]) for delivery in found]),
            Column("TRIES", [str(delivery["attempts"]) for delivery in found], right=True),
            Column("LAST TRY", [last(delivery) for delivery in found], loose=12),
            Column("NEXT TRY", [_until(delivery["next_at"]) for delivery in found]),
            Column("JOB", [delivery["job_id"] or "" for delivery in found], rank=2),
        ],
        console,
    )


def _state(state: str) -> str:
    return f"[{_COLOURS.get(state, 'default')}]{state}[/]"


def _moment(at: str) -> str:
    """A time to the second, in this machine's time zone."""
    return f"{datetime.fromisoformat(at).astimezone():%m-%d %H:%M:%S}"


def _until(at: str | None) -> str:
    """How long there still is to a time, in one unit."""
    from safelight.cli.client.look import span

    if at is None:
        return ""
    seconds = (datetime.fromisoformat(at) - datetime.now(UTC)).total_seconds()
    return f"in {span(seconds)}" if seconds >= 1 else "now"
