"""How costs look on a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from safelight.cli.fitting import Column, show
from safelight.cli.money import amount

if TYPE_CHECKING:
    from rich.console import Console

_NUMBERS = ("jobs", "attempts", "pictures", "gpu_seconds", "charged", "saved")
_MONEY = ("charged", "saved")


def show_costs(text: str, console: Console, notes: Console) -> None:
    """One line a row, one for what there was no room for, and the totals below, each with its currency."""
    from rich.markup import escape

    report = json.loads(text)
    if not report["totals"]:
        notes.print(f"Nothing was settled from {report['first']} to {report['last']}.")
        return
    by, names = report["by"], report["names"]
    rows = [(row, "") for row in report["data"] if by]
    rows += [(row, "(rest)") for row in report["rest"]] + [(row, "(total)") for row in report["totals"]]
    columns = [
        Column(group.upper(), [escape(_cell(row, group, names, word, first=not place)) for row, word in rows], loose=8)
        for place, group in enumerate(by)
    ]
    numbers = [
        Column(name.upper(), [amount(row[name]) if name in _MONEY else str(row[name]) for row, _ in rows], right=True)
        for name in _NUMBERS
    ]
    show([*columns, *numbers, Column("CURRENCY", [row["currency"] for row, _ in rows])], console)


def _cell(row: Mapping[str, Any], group: str, names: Mapping[str, str], word: str, *, first: bool) -> str:
    if word:
        return word if first else ""
    value = row["group"][group]
    return "-" if value is None else str(names.get(value, value))
