"""How quotas look on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from safelight.cli.client.http import Quota

_BAR = 16  # columns
_UNITS = {"requests": "submits", "concurrency": "jobs at once"}


def quotas_table(quotas: Iterable[Quota]) -> Table:
    """One line a quota, with a bar of what is taken."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("ID", no_wrap=True, min_width=36)
    for title in ("OWNER", "LIMIT", "WINDOW", "TAKEN"):
        table.add_column(title, no_wrap=True)
    for title in ("USED", "HELD", "LEFT"):
        table.add_column(title, no_wrap=True, justify="right")
    table.add_column("ENDS", no_wrap=True)
    for quota in quotas:
        table.add_row(
            quota["id"],
            escape(_owner(quota)),
            escape(_limit(quota)),
            _window(quota),
            _bar(quota),
            *("" if quota[name] is None else str(quota[name]) for name in ("used", "held", "left")),
            ""
            if quota["ends_at"] is None
            else f"{datetime.fromisoformat(quota['ends_at']).astimezone():%Y-%m-%d %H:%M}",
        )
    return table


def described(quota: Quota) -> str:
    """A quota in one line."""
    window = "" if quota["period"] == "total" else f", {_window(quota)}"
    return f"{_limit(quota)}{window}, for {_owner(quota)}; {quota['left']} left"


def _owner(quota: Quota) -> str:
    [(kind, name)] = quota["owner"].items()
    return f"{kind} {name}"


def _limit(quota: Quota) -> str:
    return f"{quota['limit']} {quota['currency'] or _UNITS[quota['kind']]}"


def _window(quota: Quota) -> str:
    if quota["period"] == "total":
        return ""
    if quota["rolling"]:
        return f"any {quota['period']}"
    return f"{quota['period']} {quota['zone']}"


def _bar(quota: Quota) -> Text:
    """What is taken of the limit, also where there is no colour; all of a limit of nought."""
    from rich.text import Text

    limit, left = Decimal(quota["limit"]), Decimal(quota["left"])
    share = (limit - left) / limit if limit else Decimal(1)
    style = "red" if share >= 1 else "yellow" if share >= Decimal("0.8") else "green"
    full = math.ceil(share * _BAR)
    return Text.assemble(("━" * full, style), ("─" * (_BAR - full), "dim"), f" {math.ceil(share * 100):3}%")
