"""``safelight costs`` and ``safelight reports``: what jobs cost, as a table, JSON and CSV, and the views for SQL."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from rich.console import Console
from typer.testing import CliRunner

from safelight.cli.app import app
from safelight.cli.client.cost_look import show_costs
from tests.cli.test_client import Commands, commands
from tests.reports.ledger import Attempt, write

__all__ = ["commands"]


def report(**changes: object) -> str:
    """What the API tells of a team's two keys."""
    sums = {"currency": "USD", "jobs": 1, "attempts": 2, "pictures": 1, "gpu_seconds": "1.5", "saved": "0"}
    return json.dumps(
        {
            "first": "2026-11-01", "last": "2026-11-30", "by": ["team", "key"], "names": {"id-1": "backend"},
            "data": [sums | {"group": {"team": None, "key": "id-1"}, "charged": "0.002"}],
            "rest": [sums | {"group": {}, "charged": "0.001"}],
            "totals": [sums | {"group": {}, "charged": "0.003"}],
        }
        | changes
    )  # fmt: skip


def test_a_table_ends_with_the_rest_and_the_total() -> None:
    """Keys by their names; what has no team has a dash."""
    text, notes = io.StringIO(), io.StringIO()
    show_costs(report(), Console(file=text, width=160), Console(file=notes))
    lines = [line.split() for line in text.getvalue().splitlines()]
    assert lines[0][:2] == ["TEAM", "KEY"]
    assert ["-", "backend", "1", "2", "1", "1.5", "0.002", "0.00", "USD"] in lines
    assert ["(rest)", "1", "2", "1", "1.5", "0.001", "0.00", "USD"] in lines
    assert ["(total)", "1", "2", "1", "1.5", "0.003", "0.00", "USD"] in lines
    show_costs(report(data=[], rest=[], totals=[]), Console(file=text), Console(file=notes))
    assert "Nothing was settled" in notes.getvalue()


def test_costs_over_the_api(commands: Commands) -> None:
    """As a table, as JSON and as CSV; what the API refuses is told by the option's name."""
    options = ("--by", "team", "--by", "dim:experiment", "--only", "team=nobody", "--zone", "Europe/Berlin")
    assert "Nothing was settled" in commands.run("costs", *options).stderr
    found = commands.json("costs", *options)
    assert (found["by"], found["data"], found["zone"]) == (["team", "dim:experiment"], [], "Europe/Berlin")
    table = commands.run("costs", "--csv", *options).stdout
    assert table.splitlines() == ["team,dim:experiment,currency,jobs,attempts,pictures,gpu_seconds,charged,saved"]
    assert "--from" in commands.run("costs", "--from", "yesterday", code=2).stderr
    assert "--only" in commands.run("costs", "--only", "team", code=2).stderr
    assert "--csv" in commands.run("costs", "--csv", "--json", code=2).stderr


@pytest.fixture
def role(postgres_url: str) -> Iterator[str]:
    """The name of a role that may not outlive the test."""
    name = f"reader_{uuid4().hex[:12]}"
    yield name
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP ROLE IF EXISTS {name}".encode())


def test_reports_install_makes_the_views_and_says_who_may_read_them(
    cli: CliRunner, settings: dict[str, str], database: str, role: str
) -> None:
    """The schema's name on standard output; the same again is no error, and without a role nobody else reads."""
    on_store = settings | {"SAFELIGHT_STORE": database}
    for _ in range(2):
        result = cli.invoke(app, ["reports", "install", "--role", role], env=on_store)
        assert (result.exit_code, result.stdout) == (0, "safelight_report\n"), result.output
        assert f"CREATE USER grafana PASSWORD '…' IN ROLE {role};" in result.stderr
    with psycopg.connect(database) as connection:
        connection.execute(f"SET ROLE {role}".encode())
        assert connection.execute("SELECT * FROM safelight_report.usage_by_day").fetchall() == []
        connection.execute("RESET ROLE")
        connection.execute(f"DROP OWNED BY {role}".encode())
    alone = cli.invoke(app, ["reports", "install", "--no-role"], env=on_store)
    assert (alone.exit_code, alone.stderr) == (0, ""), alone.output


def test_reports_install_refuses_what_it_cannot_do(cli: CliRunner, settings: dict[str, str], place: Path) -> None:
    """A role's name that needs quotes, and a store that has no roles; nothing listens: the command says so."""
    strange = cli.invoke(app, ["reports", "install", "--role", "x; DROP"], env=settings)
    assert (strange.exit_code, "--role" in strange.stderr) == (2, True), strange.output
    sqlite = cli.invoke(app, ["reports", "install"], env=settings | {"SAFELIGHT_STORE": f"sqlite:///{place}/jobs.db"})
    assert (sqlite.exit_code, "PostgreSQL" in sqlite.stderr) == (2, True), sqlite.output
    nobody = settings | {"SAFELIGHT_STORE": "postgresql://nobody@127.0.0.1:9/none"}
    silent = cli.invoke(app, ["reports", "install"], env=nobody)
    assert (silent.exit_code, "can't be reached" in silent.stderr) == (3, True), silent.output


def test_reports_rebuild_sums_up_the_ledger_anew(
    cli: CliRunner, settings: dict[str, str], database: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All hours that are over, however often; in SQLite there is nothing to sum up."""
    monkeypatch.setattr("safelight.cli.reports._PAUSE_S", 0.0)
    write(database, [Attempt(datetime.now(UTC) - timedelta(hours=5))])
    for _ in range(2):
        again = cli.invoke(app, ["reports", "rebuild"], env=settings | {"SAFELIGHT_STORE": database})
        assert again.exit_code == 0, again.output
        assert again.stdout in ("5 hours summed up\n", "4 hours summed up\n")
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT sum(attempts) FROM usage_by_owner").fetchone() == (1,)
    sqlite = settings | {"SAFELIGHT_STORE": f"sqlite:///{place}/jobs.db"}
    assert cli.invoke(app, ["reports", "rebuild"], env=sqlite).stdout == "0 hours summed up\n"
