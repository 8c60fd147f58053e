"""How quotas look on a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from jobstore.quotas import window_words
from safelight.cli.fitting import Column, show
from safelight.cli.money import amount, money

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from safelight.cli.client.http import Quota

_BAR = 16  # columns
_UNITS = {"requests": ("submit", "submits"), "concurrency": ("job at once", "jobs at once")}


def show_quotas(quotas: Sequence[Quota], console: Console, names: Mapping[str, str]) -> None:
    """One line a quota; with a bar of what is taken, and its id, where there is room. ``names`` are those of keys."""
    from rich.markup import escape

    ends = [_end(quota) for quota in quotas]
    numbers = {name: [_number(quota, name) for quota in quotas] for name in ("used", "held", "left")}
    show(
        [
            Column("ID", [quota["id"] for quota in quotas], rank=1),
            Column("OWNER", [escape(_owner(quota, names)) for quota in quotas], loose=8),
            Column("LIMIT", [escape(_limit(quota)) for quota in quotas]),
            Column("WINDOW", [_window(quota) for quota in quotas], loose=8),
            Column("TAKEN", [_bar(quota) for quota in quotas], rank=2),
            *(Column(name.upper(), cells, right=True) for name, cells in numbers.items()),
            Column("ENDS (UTC)" if any(ends) else "ENDS", ends),
        ],
        console,
    )


def described(quota: Quota, names: Mapping[str, str]) -> str:
    """A quota in one line."""
    what = f"{_limit(quota)} {window_words(quota['period'], rolling=quota['rolling'])}".strip()
    zoned = "" if quota["rolling"] or quota["period"] == "total" else f", by the calendar of {quota['zone']}"
    return f"{what} for {_owner(quota, names)}{zoned}; {_number(quota, 'left')} left"


def _owner(quota: Quota, names: Mapping[str, str]) -> str:
    """The kind and the name; of a key whose name isn't known the start of its id."""
    [(kind, name)] = quota["owner"].items()
    return f"{kind} {names.get(name, name[:8])}" if kind == "key" else f"{kind} {name}"


def _limit(quota: Quota) -> str:
    if quota["currency"]:
        return money(quota["limit"], quota["currency"])
    return f"{quota['limit']} {_UNITS[quota['kind']][quota['limit'] != 1]}"


def _number(quota: Quota, name: str) -> str:
    if quota[name] is None:
        return ""
    return amount(quota[name]) if quota["currency"] else str(quota[name])


def _window(quota: Quota) -> str:
    if quota["period"] == "total":
        return ""
    if quota["rolling"]:
        return f"any {quota['period']}"
    return f"{quota['period']} {quota['zone']}"


def _end(quota: Quota) -> str:
    ends_at = quota["ends_at"]
    return "" if ends_at is None else f"{datetime.fromisoformat(ends_at).astimezone(UTC):%Y-%m-%d %H:%M}"


def _bar(quota: Quota) -> Text:
    """What is taken of the limit, also where there is no colour; all of a limit of nought."""
    from rich.text import Text

    limit, left = Decimal(quota["limit"]), Decimal(quota["left"])
    share = (limit - left) / limit if limit else Decimal(1)
    style = "red" if share >= 1 else "yellow" if share >= Decimal("0.8") else "green"
    full = math.ceil(share * _BAR)
    return Text.assemble(("━" * full, style), ("─" * (_BAR - full), "dim"), f" {math.ceil(share * 100):3}%")
