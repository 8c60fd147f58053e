"""``safelight quotas``: set, list and clear limits over the API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.console import Console

from safelight.cli.client.quota_look import described, quotas_table
from safelight.cli.client.quotas import limit_of, owner_of
from safelight.cli.exits import RefusedError
from tests.cli.test_client import Commands, commands

__all__ = ["commands"]


def listed(commands: Commands, *arguments: str) -> list[dict[str, Any]]:
    """The quotas that the API tells."""
    return list(json.loads(commands.run("quotas", "list", *arguments, "--json").stdout))


def test_limits_are_set_changed_listed_and_cleared(commands: Commands) -> None:
    """Set again, the limit changes; none of another owner is touched."""
    berlin = ("--per", "1M", "--zone", "Europe/Berlin")
    made = commands.json("quotas", "set", "--team", "cli", "--spend", "100.50", *berlin)
    assert (made["limit"], made["period"], made["zone"], made["left"]) == ("100.5", "1M", "Europe/Berlin", "100.5")
    said = commands.run("quotas", "set", "--team", "cli", "--spend", "50", *berlin)
    assert said.stdout.strip() == made["id"]
    assert "changed: 50 USD, 1M Europe/Berlin, for team cli; 50 left" in said.stderr
    assert (
        "clear"
        in commands.run("quotas", "set", "--team", "cli", "--spend", "5", "--per", "1M", "--zone", "UTC", code=2).stderr
    )
    commands.run("quotas", "set", "--team", "cli", "--requests", "60", "--per", "1m", "--rolling")
    commands.run("quotas", "set", "--team", "cli", "--jobs", "10")
    commands.run("quotas", "set", "--customer", "cli", "--jobs", "10")
    table = commands.run("quotas", "list", "--team", "cli").stdout
    for words in ("50 USD", "60 submits", "10 jobs at once", "1M Europe/Berlin", "any 1m", "   0%"):
        assert words in table
    assert "customer cli" not in table
    assert commands.json("quotas", "clear", "--team", "cli", "--spend", "--jobs", "--per", "1M") == {
        "cleared": [made["id"]]
    }
    assert [quota["kind"] for quota in listed(commands, "--team", "cli")] == ["requests", "concurrency"]
    assert commands.run("quotas", "clear", "--team", "cli").stdout.strip() == "cleared 2"
    assert commands.run("quotas", "clear", "--team", "cli", code=2).stderr.startswith("error: there is no such quota")
    [left] = listed(commands)
    commands.run("quotas", "clear", left["id"])
    commands.run("quotas", "clear", left["id"], code=2)
    assert "nothing is limited" in commands.run("quotas", "list").stderr


def test_what_the_api_refuses_is_told(commands: Commands) -> None:
    """In its words."""
    assert "7h" not in commands.run("quotas", "list").stdout
    refused = commands.run("quotas", "set", "--team", "cli", "--spend", "1", "--per", "7h", code=2)
    assert "divides a day" in refused.stderr
    assert "without quotes" not in commands.run("quotas", "set", "--team", "c d", "--jobs", "1", code=2).stderr


def test_one_owner_and_one_limit() -> None:
    """Neither none nor two."""
    assert owner_of(None, None, "0192") == {"key": "0192"}
    assert limit_of(None, 5, None) == ("requests", 5)
    for names in ((None, None, None), ("a", "b", None)):
        with pytest.raises(RefusedError, match="--key-id"):
            owner_of(*names)
    for limits in ((None, None, None), ("1", 5, None)):
        with pytest.raises(RefusedError, match="--requests"):
            limit_of(*limits)


@pytest.mark.parametrize(
    ("limit", "left", "bar"),
    [("0", "0", "━" * 16 + " 100%"), ("10", "10", "─" * 16 + "   0%"), (8, 4, "━" * 8 + "─" * 8 + "  50%")],
)
def test_bars_of_what_is_taken(limit: str | int, left: str | int, bar: str) -> None:
    """Of nothing, of a limit of nought, of what a key isn't told."""
    quota = {
        "id": "q", "owner": {"team": "[red]ads"}, "kind": "requests", "limit": limit, "currency": None, "period": "1d",
        "rolling": False, "zone": "UTC", "used": None, "held": None, "left": left, "ends_at": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    console = Console(width=200, record=True)
    console.print(quotas_table([quota]))
    text = console.export_text()
    assert "team [red]ads" in text
    assert bar in text
    assert described(quota).endswith(f"{left} left")
