"""``safelight keys`` and ``safelight audit``: what the options mean, and what comes of them."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from rich.console import Console

from jobstore.keys import ApiKey, Digester, Scope
from jobstore.postgres.store import PostgresStore
from safelight.cli.exits import RefusedError
from safelight.cli.keys.look import show_keys
from safelight.cli.keys.options import checked_fields, moment_of
from safelight.cli.spans import span_of
from safelight.config import ModelSettings, Settings
from tests.cli.running import run_safelight

PEPPER = "a pepper of forty characters, for a test"
SETTINGS = Settings(models={"scenes": ModelSettings(model="x/scenes", aliases=("shapes",))})


async def test_a_key_lives_its_life_on_the_command_line(
    settings: dict[str, str], database: str, store: PostgresStore
) -> None:
    """Made, shown, changed, rotated under the pepper, revoked; the audit log has it all, and no secret."""
    environment = {**settings, "SAFELIGHT_STORE": database, "SAFELIGHT_KEY_PEPPER": PEPPER}

    def told(*arguments: str, code: int = 0) -> Any:
        done = run_safelight(*arguments, "--json", environment=environment)
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout) if code == 0 else done.stderr

    given = "--scope submit --model scenes --team red --customer acme --expires 30d --from 10.0.0.0/8"
    made = told("keys", "create", "shop", *given.split())
    assert (made["scopes"], made["models"], made["team"], made["customer"]) == (["submit"], ["scenes"], "red", "acme")
    assert made["networks"] == ["10.0.0.0/8"]
    left = datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=29) < left < timedelta(days=30)
    assert (made["object"], made["state"], "admin" in made) == ("api_key", "in_force", False)
    secret = made.pop("secret")
    match = await store.find_key(Digester(PEPPER).kept(secret))
    assert match is not None
    assert (match.key.peppered, str(match.key.id)) == (True, made["id"])
    assert told("keys", "show", made["id"]) == made

    wanted = ("--scope", "admin", "--all-models", "--from-anywhere", "--team", "", "--expires", "never")
    changed = told("keys", "change", made["id"], *wanted)
    told_of = (changed["scopes"], changed["models"], changed["team"], changed["expires_at"])
    assert told_of == (["submit", "read", "observe", "admin"], None, None, None)
    assert changed["networks"] is None
    assert changed["customer"] == "acme"
    rotated = told("keys", "rotate", made["id"], "--grace", "1h")
    assert rotated["secret"] != secret
    assert await store.find_key(Digester(PEPPER).kept(secret)) is not None
    assert "--force" in told("keys", "revoke", made["id"], code=2)
    assert told("keys", "revoke", made["id"], "--force")["revoked_at"]

    assert [key["id"] for key in told("keys", "ls", "--text", "SHO", "--state", "revoked")["data"]] == [made["id"]]
    assert told("keys", "ls", "--state", "in_force") == {"object": "list", "data": [], "next_cursor": None}
    log = told("audit", "--target", made["id"], "--actor", "COMMAND line", "--after", "2h")
    assert [entry["action"] for entry in log["data"]] == ["key.revoked", "key.rotated", "key.changed", "key.created"]
    assert all(entry["actor"].startswith("command line: ") for entry in log["data"])
    for told_secret in (secret, rotated["secret"]):
        assert told_secret[:7] not in json.dumps(log)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30s", timedelta(seconds=30)), ("90m", timedelta(minutes=90)), ("12h", timedelta(hours=12)),
     ("30d", timedelta(days=30)), ("4w", timedelta(weeks=4))],
)  # fmt: skip
def test_spans_of_time_are_read(text: str, expected: timedelta) -> None:
    """With their unit."""
    assert span_of("--grace", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2030-01-31", "2030-02-01T00:00:00+00:00"), ("2030-01-31T12:00:00Z", "2030-01-31T12:00:00+00:00"),
     ("2030-01-31T00:00:00+02:00", "2030-01-30T22:00:00+00:00")],
)  # fmt: skip
def test_moments_are_read(text: str, expected: str) -> None:
    """A day counts to its end."""
    assert moment_of("--expires", text) == datetime.fromisoformat(expected)


@pytest.mark.parametrize(
    "text", ["", "30", "d", "-1d", "1y", "2030-13-01", "2030-01-31T12:00:00", "9999-12-31", "soon"]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    """With the option's name."""
    with pytest.raises(RefusedError, match="--expires"):
        moment_of("--expires", text)


@pytest.mark.parametrize(
    ("fields", "option"),
    [({"name": " "}, "NAME"), ({"name": "a\x07"}, "NAME"), ({"weight": float("nan")}, "--weight"),
     ({"weight": 0.001}, "--weight"), ({"team": "a b"}, "--team"), ({"customer": ""}, "--customer"),
     ({"models": ("gone",)}, "--model"), ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "--expires")],
)  # fmt: skip
def test_what_a_key_can_not_be_is_refused(fields: dict[str, Any], option: str) -> None:
    """By the option that said it."""
    with pytest.raises(RefusedError, match=f"^{option} "):
        checked_fields(fields, SETTINGS)


def test_models_are_kept_by_their_own_names() -> None:
    """Once each; scopes in their one order."""
    fields = checked_fields({"models": ("shapes", "scenes"), "scopes": (Scope.READ, Scope.SUBMIT)}, SETTINGS)
    assert fields == {"models": ("scenes",), "scopes": (Scope.SUBMIT, Scope.READ)}


@pytest.mark.parametrize("command", [("create", "ops"), ("change", "01900000-0000-7000-8000-000000000000")])
def test_an_unknown_scope_is_told_those_there_are(command: tuple[str, ...], settings: dict[str, str]) -> None:
    """In plain words."""
    refused = run_safelight("keys", *command, "--scope", "foo", environment=settings)
    assert refused.returncode == 2
    assert refused.stderr.strip() == "error: --scope must be one or more of: submit, read, observe, admin"


def drawn(keys: list[ApiKey], width: int) -> str:
    """What is seen on a terminal so wide."""
    file = io.StringIO()
    show_keys(keys, Console(width=width, file=file))
    return file.getvalue()


def test_keys_fit_into_eighty_columns() -> None:
    """Columns go where there is no room; ids and names are never cut."""
    names = ("the shop of the corner", "ops")
    keys = [
        ApiKey(
            id=uuid4(), name=name, admin=name == "ops", hint="sl_8J2P…", created_at=datetime.now(UTC),
            team="ads-on-the-web", customer="acme", expires_at=datetime(2031, 1, 31, 12, tzinfo=UTC),
        )
        for name in names
    ]  # fmt: skip
    wide = drawn(keys, 250)
    assert all(title in wide for title in ("SECRET", "CUSTOMER", "WEIGHT", "CREATED"))
    narrow = drawn(keys, 80)
    assert max(len(line.rstrip()) for line in narrow.splitlines()) <= 80
    assert "…" not in narrow
    assert all(title in narrow.splitlines()[0] for title in ("ID", "NAME", "SCOPES", "STATE"))
    for key in keys:
        assert str(key.id) in narrow
        assert all(word in narrow for word in key.name.split())
