"""Commands that work on the store and the machine: keys, migrate, doctor."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from jobstore.keys import hash_secret
from jobstore.postgres.store import PostgresStore
from safelight.cli.app import app
from safelight.cli.doctor.places import check_store, check_traces
from safelight.cli.server.reasons import advice_for, sentence_of
from safelight.config import Settings, load_settings
from safelight.config.telemetry import TelemetrySettings
from tests.cli.running import run_safelight, write_settings
from tests.e2e.processes import leftovers


async def test_a_key_is_made_listed_and_revoked(settings: dict[str, str], database: str, store: PostgresStore) -> None:
    """The secret alone is on standard output; the store knows its hash; a revoked key counts no more."""
    environment = {**settings, "SAFELIGHT_STORE": database}
    made = run_safelight("keys", "create", "ops", "--admin", "--weight", "2.5", environment=environment)
    assert made.returncode == 0, made.stderr
    secret = made.stdout.strip()
    found = await store.find_key(hash_secret(secret))
    assert found is not None
    key = found.key
    assert (key.name, key.admin, key.weight) == ("ops", True, 2.5)
    assert str(key.id) in made.stderr
    assert secret not in made.stderr

    listed = run_safelight("keys", "ls", environment=environment)
    assert str(key.id) in listed.stdout
    assert secret not in listed.stdout
    assert "admin" in listed.stdout
    assert "2.5" in listed.stdout
    as_json = json.loads(run_safelight("keys", "ls", "--json", environment=environment).stdout)
    assert as_json.keys() == {"object", "data", "next_cursor"}
    assert as_json["data"][0]["object"] == "api_key"
    assert [(entry["name"], entry["weight"], entry["revoked_at"]) for entry in as_json["data"]] == [("ops", 2.5, None)]

    assert run_safelight("keys", "revoke", str(key.id), "--force", environment=environment).returncode == 0
    assert await store.find_key(hash_secret(secret)) is None
    unknown = "01900000-0000-7000-8000-000000000000"
    again = run_safelight("keys", "revoke", unknown, environment=environment)
    assert again.returncode == 2
    assert unknown in again.stderr
    nameless = run_safelight("keys", "revoke", "ops", environment=environment)
    assert (nameless.returncode, "safelight keys ls" in nameless.stderr) == (2, True)


def test_migrate_lists_what_it_applied_and_stops_the_server_again(settings: dict[str, str], place: Path) -> None:
    """On a folder that was never used: all migrations, then none; PostgreSQL ran for the moment only."""
    first = run_safelight("migrate", environment=settings)
    assert first.returncode == 0, first.stderr
    assert first.stdout.split()[0].startswith("0001")
    assert leftovers(str(place)) == []
    again = run_safelight("migrate", environment=settings)
    assert (again.returncode, again.stdout) == (0, "")
    assert "up to date" in again.stderr
    assert leftovers(str(place)) == []


def test_migrate_checks_without_changing_anything(settings: dict[str, str], tmp_path: Path) -> None:
    """What is lacking is a failure; a newer schema that leaves room is none, and one that doesn't says what to do."""
    file = tmp_path / "store.db"
    environment = {**settings, "SAFELIGHT_STORE": f"sqlite:///{file}"}

    def check() -> tuple[int, str]:
        done = CliRunner(env=environment).invoke(app, ["migrate", "--check"])
        return done.exit_code, " ".join(done.stderr.split())

    code, words = check()
    assert (code, "safelight migrate" in words) == (1, True)
    assert CliRunner(env=environment).invoke(app, ["migrate"]).exit_code == 0
    assert check() == (0, "The schema is up to date.")
    for needs, expected in ((1, "this one works on it"), (9999, "install a newer Safelight")):
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("DELETE FROM schema_migration WHERE version = 9999")
            connection.execute("INSERT INTO schema_migration VALUES (9999, '9999_next', 'x', ?)", [needs])
        code, words = check()
        assert (code, expected in words) == (int(needs == 9999), True), words


def test_doctor_renders_a_step_with_a_small_model(settings: dict[str, str]) -> None:
    """All is well on a machine that was never used, and nothing is left behind by the look."""
    done = run_safelight("doctor", "--json", environment=settings)
    assert done.returncode == 0, done.stdout + done.stderr
    checks = checks_of(done.stdout)
    assert set(checks) == {
        *("settings", "data folder", "store", "broker", "outputs", "lanes", "libraries", "device", "model scenes"),
    }
    assert {check["status"] for check in checks.values()} == {"ok"}
    assert "one step" in checks["model scenes"]["detail"]
    assert not Path(settings["SAFELIGHT_HOME"]).exists()


def test_doctor_says_what_fails_and_what_to_do(place: Path, database: str) -> None:
    """Everything that can be away is away; secrets of URLs are not shown."""
    (place / "file").write_text("in the way")
    environment = write_settings(place) | {
        "SAFELIGHT_HOME": str(place / "file"),
        "SAFELIGHT_STORE": "postgresql://me:geheim@127.0.0.1:9/x",
        "SAFELIGHT_BROKER": "amqp://me:geheim@127.0.0.1:9",
        "SAFELIGHT_OUTPUTS": (place / "file" / "below").as_uri(),
    }
    broken = place / "broken"
    broken.mkdir()
    with (place / "safelight.toml").open("a") as file:
        file.write(f'[models.broken]\nmodel = "{broken}"\n')
    done = run_safelight("doctor", "--no-load", "--json", environment=environment)
    assert done.returncode == 1, done.stdout + done.stderr
    checks = checks_of(done.stdout)
    for name in ("data folder", "store", "broker", "model broken"):
        assert checks[name]["status"] == "fail", checks[name]
        assert checks[name]["advice"]
    assert checks["model scenes"]["status"] == "ok"
    assert "geheim" not in done.stdout + done.stderr


def test_doctor_needs_settings_first(place: Path) -> None:
    """A key that doesn't exist is named."""
    (place / "safelight.toml").write_text("colour = 1\n")
    done = run_safelight("doctor", "--config", str(place / "safelight.toml"), environment={})
    assert done.returncode == 1
    assert "colour" in done.stdout


def checks_of(output: str) -> dict[str, dict[str, Any]]:
    """The checks by name."""
    return {check["name"]: check for check in json.loads(output)["checks"]}


def test_doctor_warns_of_a_lane_that_nobody_serves(tmp_path: Path) -> None:
    """Jobs of its models would wait for ever."""
    from safelight.cli.doctor.engine import check_lanes

    file = tmp_path / "safelight.toml"
    file.write_text('[models.a]\nmodel = "x/a"\n[models.b]\nmodel = "x/b"\nlane = "large"')
    check = check_lanes(load_settings(file, {}))
    assert check.status == "warn"
    assert "large" in check.detail


def test_doctor_tells_of_traces_that_nobody_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are wanted and the extra is missing; where they are not it says nothing."""
    wanted = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    assert list(check_traces(Settings(), {})) == []
    assert [check.status for check in check_traces(Settings(), wanted)] == ["ok"]
    monkeypatch.setitem(sys.modules, "safelight.telemetry.otlp", None)  # as if it could not be imported
    [check] = check_traces(Settings(), wanted)
    assert (check.status, "safelight[otel]" in check.advice) == ("warn", True)
    assert list(check_traces(Settings(telemetry=TelemetrySettings(traces="off")), wanted)) == []


def test_doctor_tells_of_keys_under_a_pepper_that_is_not_set(settings: dict[str, str], database: str) -> None:
    """A server would refuse them; with the pepper all is well."""
    pepper = {"SAFELIGHT_KEY_PEPPER": "a pepper of forty characters, for a test"}
    environment = {**settings, "SAFELIGHT_STORE": database}
    assert run_safelight("keys", "create", "ops", environment=environment | pepper).returncode == 0
    check = check_store(load_settings(None, environment))
    assert (check.status, "1 API key was" in check.detail) == ("warn", True)
    assert "SAFELIGHT_KEY_PEPPER" in check.advice
    assert check_store(load_settings(None, environment | pepper)).status == "ok"


def test_a_store_that_is_away_says_why_and_what_to_do(settings: dict[str, str], database: str) -> None:
    """PostgreSQL's own words, and the command that makes a missing database."""
    missing = database.rpartition("/")[0] + "/not_there"
    for command in (("migrate",), ("keys", "ls")):
        done = run_safelight(*command, environment={**settings, "SAFELIGHT_STORE": missing})
        assert done.returncode == 3, done.stderr
        assert 'database "not_there" does not exist' in done.stderr
        assert re.search(r"createdb .*not_there", done.stderr)


def test_no_password_is_told() -> None:
    """Neither as it is written in the URL nor as it is meant."""
    url = "postgresql://me:ge%20heim@host:5433/jobs"
    said = sentence_of(ValueError("invalid: ge%20heim,\n ge heim"), url)
    assert "heim" not in said
    assert "invalid:" in said
    assert advice_for('database "jobs" does not exist', url) == "make it:  createdb -h host -p 5433 -U me jobs"
    assert "SAFELIGHT_STORE" in advice_for("connection refused", url)
