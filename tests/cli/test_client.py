"""The commands that talk to a running Safelight."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from safelight.cli.app import app
from tests.cli.running import Embedded, run_safelight
from tests.e2e.processes import wait_for


def failing(commands: Commands) -> dict[str, Any]:
    """A job that ended with a deadline's error."""
    commands.run("submit", "a red circle", "--steps", "1000", "--cache", "off", "--deadline", "0.2", "-w", code=1)
    return dict(commands.json("jobs", "ls", "--state", "failed", "--limit", "1")["data"][0])


class Commands:
    """Runs client commands against one server."""

    def __init__(self, cli: CliRunner, url: str) -> None:
        self._cli = cli
        self._url = url

    def run(self, *arguments: str, code: int = 0) -> Result:
        """The result of a command that must exit with ``code``."""
        result = self._cli.invoke(app, [*arguments], env={"SAFELIGHT_URL": self._url})
        assert result.exit_code == code, result.output
        return result

    def json(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """What a command with --json printed."""
        return dict(json.loads(self.run(*arguments, "--json", code=code).stdout))


@pytest.fixture
def commands(cli: CliRunner, embedded: Embedded) -> Commands:
    """Client commands against the session's server."""
    return Commands(cli, embedded.server.url)


def test_submit_takes_every_field_of_the_api(commands: Commands) -> None:
    """What the command line says arrives as it was meant."""
    job = commands.json(
        *("submit", "a red circle", "--model", "scenes", "--size", "64x64", "-n", "2", "--steps", "3"),
        *("--guidance", "1.5", "--seed", "7", "--priority", "9", "--cache", "off", "--format", "webp"),
        *("--dim", "team=blue", "--dim", "purpose=a=b", "--deadline", "60", "--start-deadline", "50"),
        *("--start-at", "2020-01-31T12:00:00Z", "--wait"),
    )
    request = job["request"]
    assert job["state"] == "succeeded"
    assert (request["size"], request["n"], request["steps"], request["seed"]) == ("64x64", 2, 3, 7)
    assert (request["guidance"], request["priority"], request["cache"]) == (1.5, 9, "off")
    assert (request["format"], request["deadline_s"], request["start_deadline_s"]) == ("webp", 60, 50)
    assert job["dimensions"] == {"team": "blue", "purpose": "a=b"}


def test_submit_saves_the_pictures_and_prints_where(commands: Commands, tmp_path: Path) -> None:
    """One goes where -o says, several get numbers; -o implies --wait."""
    one = commands.run("submit", "a red circle", "-o", str(tmp_path / "one.png"), "--steps", "2")
    assert one.stdout.split() == [str(tmp_path / "one.png")]
    two = commands.run("submit", "a red circle", "-n", "2", "-o", str(tmp_path / "[b]two.png"), "--steps", "2")
    assert two.stdout.split() == [str(tmp_path / "[b]two-1.png"), str(tmp_path / "[b]two-2.png")]
    for name in ("one", "[b]two-1", "[b]two-2"):
        assert Image.open(tmp_path / f"{name}.png").size == (128, 128)
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


def test_a_place_that_is_not_there_is_refused_before_anything_is_submitted(tmp_path: Path, cli: CliRunner) -> None:
    """Nobody listens there, so that a submit would have been exit code 3."""
    nobody = {"SAFELIGHT_URL": "http://127.0.0.1:9"}
    for place in (tmp_path / "made" / "a.png", tmp_path):
        result = cli.invoke(app, ["submit", "a red circle", "-o", str(place)], env=nobody)
        assert (result.exit_code, "folder" in result.stderr) == (2, True), result.output
    assert not (tmp_path / "made").exists()


def test_ctrl_c_before_an_answer_says_so(cli: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 130 as ever, and how to be sure."""

    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("safelight.cli.client.http.Client.submit", interrupt)
    result = cli.invoke(app, ["submit", "a red circle"])
    assert result.exit_code == 130, result.output
    assert "nothing was submitted" in result.stderr


def test_warnings_are_printed_on_standard_error(commands: Commands) -> None:
    """By who waits, who watches, and who looks."""
    prompt = "a red circle " * 30  # more than the text encoder reads
    waited = commands.run("submit", prompt, "--steps", "1", "--seed", "3", "--wait")
    assert "warning:" in waited.stderr
    job_id = commands.json("jobs", "ls", "--limit", "1")["data"][0]["id"]
    assert "warning:" in commands.run("jobs", "watch", job_id).stderr
    shown = commands.run("jobs", "show", job_id).stdout
    assert "warning" in shown
    titles = [line.split("  ")[0] for line in shown.splitlines()]
    assert (titles.count("cache"), titles.count("cache mode")) == (1, 1)


def test_submit_without_waiting_prints_the_id(commands: Commands) -> None:
    """The id alone is on standard output, for scripts."""
    result = commands.run("submit", "a red circle", "--steps", "2")
    job_id = result.stdout.strip()
    assert len(job_id) == 36
    watched = commands.run("jobs", "watch", job_id)
    assert watched.stdout.split()[0] == "succeeded"
    assert f"/v1/jobs/{job_id}/images/0" in watched.stdout


def test_a_field_that_the_api_refuses_is_named(commands: Commands) -> None:
    """Exit code 2, and the API's words."""
    result = commands.run("submit", "a red circle", "--size", "65x65", code=2)
    assert "size" in result.stderr
    result = commands.run("submit", "a red circle", "--model", "unknown", code=2)
    assert "model" in result.stderr
    assert "scenes" in result.stderr


def test_ls_and_show_tell_about_jobs(commands: Commands) -> None:
    """A table for people and JSON for scripts; a prompt's brackets are no markup."""
    job = commands.json("submit", "a [bold]red circle[/bold]", "--steps", "2", "--wait", "--dim", "team=blue")
    listed = commands.run("jobs", "ls", "--limit", "5").stdout
    assert job["id"] in listed
    assert "a [bold]red circle[/bold]" in listed
    page = commands.json("jobs", "ls", "--state", "succeeded", "--model", "scenes", "--limit", "1")
    assert len(page["data"]) == 1
    shown = commands.run("jobs", "show", job["id"]).stdout
    assert "a [bold]red circle[/bold]" in shown
    assert "team=blue" in shown
    assert "0.01 USD" in shown
    assert commands.json("jobs", "show", job["id"])["id"] == job["id"]


def test_a_canceled_job_is_a_failure_for_those_who_wait(commands: Commands, embedded: Embedded) -> None:
    """cancel is idempotent; watch exits with 1; a canceled job can't be retried."""
    job = commands.json("submit", "a red circle", "--steps", "1000", "--cache", "off")
    wait_for("the job to run", lambda: embedded.server.job(job["id"])["state"] == "running")
    assert "running" in commands.run("jobs", "ls", "--state", "running").stdout
    commands.run("jobs", "cancel", job["id"])
    assert "canceled" in commands.run("jobs", "watch", job["id"], code=1).stderr
    assert commands.run("jobs", "cancel", job["id"]).stdout.strip() == "canceled"
    assert "only failed or dead" in commands.run("jobs", "retry", job["id"], code=2).stderr


def test_a_failed_job_can_be_retried(commands: Commands) -> None:
    """A deadline passes, submit --wait exits with 1 and says why; retry queues it again."""
    result = commands.run(
        "submit", "a red circle", "--steps", "1000", "--cache", "off", "--deadline", "0.2", "-w", code=1
    )
    assert "deadline" in result.stderr
    failed = commands.json("jobs", "ls", "--state", "failed")["data"][0]
    assert commands.run("jobs", "retry", failed["id"]).stdout.strip() == "queued"
    commands.run("jobs", "cancel", failed["id"])


def test_failed_jobs_are_redriven_after_a_question(commands: Commands) -> None:
    """The list tells their error; without a yes nothing happens; a filter that names nothing of them finds none."""
    job = failing(commands)
    assert "deadline_exceeded" in commands.run("jobs", "ls", "--state", "failed").stdout
    where = ("jobs", "redrive", "--error", "deadline_exceeded", "--lane", "default", "--ended-after", job["created_at"])
    refused = commands.run(*where, code=2)
    assert "Queue 1 job anew?" in refused.stderr
    assert "nothing was queued" in refused.stderr
    assert commands.json(*where, "--state", "dead", "--yes") == {"count": 0, "job_ids": []}
    assert commands.run(*where, "--text", "no such prompt", "--dry-run").stdout.strip() == "0"
    done = commands.run(*where, "--yes", "--limit", "1000")
    assert done.stdout.split() == [job["id"]]
    assert "1 job queued anew." in done.stderr
    commands.run("jobs", "cancel", job["id"])


def test_a_lane_is_paused_and_resumed(commands: Commands) -> None:
    """Its jobs wait and say so; the table and JSON tell; an unknown lane is refused with those that there are."""
    for action in ("pause", "resume"):
        assert "there are: default" in commands.run("lanes", action, "large", code=2).stderr
    paused = commands.run("lanes", "pause", "default", "--reason", "new [b]weights")
    try:
        assert paused.stdout.strip() == "paused"
        submitted = commands.run("submit", "a red circle", "--steps", "2", "--cache", "off")
        assert "lane paused" in submitted.stderr
        listed = commands.run("lanes", "ls").stdout
        assert "new [b]weights" in listed
        (lane,) = commands.json("lanes", "ls")["data"]
        assert (lane["name"], lane["paused"], lane["queued"]) == ("default", True, 1)
    finally:
        resumed = commands.json("lanes", "resume", "default")
    assert not resumed["paused"]
    assert commands.run("jobs", "watch", submitted.stdout.strip()).stdout.split()[0] == "succeeded"


def test_an_unknown_job_is_refused(commands: Commands) -> None:
    """Whatever is done with it, exit code 2."""
    for action in ("show", "watch", "cancel", "retry"):
        assert "no job" in commands.run("jobs", action, "01900000-0000-7000-8000-000000000000", code=2).stderr


def test_migrate_attaches_to_a_running_server_and_leaves_it_running(embedded: Embedded) -> None:
    """There is nothing to do, and the API is ready as before."""
    done = run_safelight("migrate", environment=embedded.environment)
    assert done.returncode == 0, done.stderr
    assert "up to date" in done.stderr
    assert embedded.server.http.get("/readyz").status_code == 200
