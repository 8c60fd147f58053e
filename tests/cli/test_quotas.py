"""``safelight quotas``: set, list and clear limits over the API."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from safelight.cli.client.quota_look import described, show_quotas
from safelight.cli.client.quota_options import limit_of, of_window, owner_of
from safelight.cli.exits import RefusedError
from tests.cli.test_client import Commands, commands

__all__ = ["commands"]

KEY = "01920000-0000-7000-8000-00000000000a"


def listed(commands: Commands, *arguments: str) -> list[dict[str, Any]]:
    """The quotas that the API tells."""
    page = commands.json("quotas", "list", *arguments)
    assert (page["object"], page["next_cursor"]) == ("list", None)
    return list(page["data"])


def test_limits_are_set_changed_listed_and_cleared(commands: Commands) -> None:
    """Set again, the limit changes; none of another owner is touched."""
    berlin = ("--per", "1M", "--zone", "Europe/Berlin")
    made = commands.json("quotas", "set", "--team", "cli", "--spend", "100.50", *berlin)
    assert (made["limit"], made["period"], made["zone"], made["left"]) == ("100.5", "1M", "Europe/Berlin", "100.5")
    said = commands.run("quotas", "set", "--team", "cli", "--spend", "50", *berlin)
    assert said.stdout.strip() == made["id"]
    assert "changed: 50.00 USD a month for team cli, by the calendar of Europe/Berlin; 50.00 left" in said.stderr
    assert (
        "clear"
        in commands.run("quotas", "set", "--team", "cli", "--spend", "5", "--per", "1M", "--zone", "UTC", code=2).stderr
    )
    commands.run("quotas", "set", "--team", "cli", "--requests", "60", "--per", "1m", "--rolling")
    commands.run("quotas", "set", "--team", "cli", "--jobs", "10")
    commands.run("quotas", "set", "--customer", "cli", "--jobs", "10")
    table = commands.run("quotas", "list", "--team", "cli").stdout
    for words in ("50.00 USD", "ENDS (UTC)", "60 submits", "10 jobs at once", "1M Europe/Berlin", "any 1m", "   0%"):
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
    assert owner_of(None, None, KEY.upper()) == {"key": KEY}
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
    quota = told(owner={"team": "[red]ads"}, limit=limit, left=left)
    shown = drawn([quota], 200)
    assert "team [red]ads" in shown
    assert bar in shown
    assert described(quota, {}).endswith(f"{left} left")


def told(**fields: Any) -> dict[str, Any]:
    """A quota as the API tells of it."""
    return {
        "id": "q", "owner": {"key": KEY}, "kind": "requests", "limit": 10, "currency": None, "period": "1d",
        "rolling": False, "zone": "UTC", "used": None, "held": None, "left": 10, "ends_at": "2026-01-01T12:00:00Z",
        **fields,
    }  # fmt: skip


def drawn(quotas: list[dict[str, Any]], width: int, names: dict[str, str] | None = None) -> str:
    """What is seen on a terminal so wide."""
    console = Console(width=width, file=io.StringIO())
    show_quotas(quotas, console, names or {})
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


DEAR = told(
    id=KEY, kind="spend", limit="12345.6789", currency="USD", period="1M", zone="America/Argentina/Buenos_Aires",
    used="10000.1234", held="1234.5678", left="1110.9877",
)  # fmt: skip
PLAIN = told(id=KEY, kind="concurrency", limit=10, period="total", used=0, held=3, left=7, ends_at=None)


def test_the_quota_of_a_key_fits_into_eighty_columns() -> None:
    """The bar goes first, then the id; numbers never do."""
    wide = drawn([DEAR, PLAIN], 200)
    assert KEY in wide
    assert "key 01920000 " in wide
    assert "━" in wide
    middle = drawn([PLAIN], 100)
    assert KEY in middle
    assert "━" not in middle
    narrow = drawn([DEAR, PLAIN], 80, {KEY: "the shop of the corner"})
    assert max(len(line.rstrip()) for line in narrow.splitlines()) <= 80
    for number in ("12345.6789", "10000.1234", "1234.5678", "1110.9877", "2026-01-01", "10 jobs"):
        assert number in narrow
    assert KEY not in narrow
    assert "key the" in narrow
    assert all(number in drawn([DEAR], 30) for number in ("12345.6789", "10000.1234", "1110.9877"))


def test_a_window_may_be_of_two() -> None:
    """A rolling one and the calendar's are told apart where one window is named, and both go where none is."""
    quotas = [told(rolling=True), told(rolling=False), told(rolling=False, period="1h")]
    assert of_window(quotas, None, None) == quotas
    assert of_window(quotas, "1d", True) == quotas[:1]
    assert of_window(quotas, "1d", False) == quotas[1:2]
    assert of_window(quotas, "1h", None) == quotas[2:]
    with pytest.raises(RefusedError, match="one of the calendar"):
        of_window(quotas, "1d", None)
    with pytest.raises(RefusedError, match="no such quota"):
        of_window(quotas, "1h", True)


def test_errors_name_the_option(commands: Commands) -> None:
    """And not the field of the API."""
    for arguments, words in (
        (("--key-id", "nope", "--jobs", "5"), "--key-id must be a key's id, like 01890000-"),
        (("--key-id", KEY, "--jobs", "5"), "--key-id: no key with that id"),
        (("--team", "c d", "--jobs", "5"), "--team must be 1 to 64 of"),
        (("--team", "cli", "--spend", "ten"), "--spend must be an amount like 10.50"),
        (("--team", "cli", "--spend", "1", "--per", "1M", "--zone", "Mars"), "--zone 'Mars' is not a time zone"),
    ):
        refused = commands.run("quotas", "set", *arguments, code=2)
        assert refused.stderr.startswith(f"error: {words}"), refused.stderr


def test_a_team_without_a_key_and_two_windows(commands: Commands) -> None:
    """The first is told and no error; of the second one is to be named."""
    team = ("--team", "nosuch")
    said = commands.run("quotas", "set", *team, "--requests", "60", "--per", "1h")
    assert "No key has this team yet" in said.stderr
    commands.run("quotas", "set", *team, "--requests", "50", "--per", "1h", "--rolling")
    refused = commands.run("quotas", "clear", *team, "--per", "1h", code=2)
    assert "--rolling or --calendar" in refused.stderr
    assert commands.run("quotas", "clear", *team, "--per", "1h", "--rolling").stdout.strip() == "cleared 1"
    assert [quota["limit"] for quota in listed(commands, *team)] == [60]
    commands.run("quotas", "clear", *team)
