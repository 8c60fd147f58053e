"""Wrong usage, wrong settings, nobody there: exit codes and words."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from safelight import __version__
from safelight.cli.app import app
from safelight.cli.client.pictures import targets
from safelight.cli.exits import RefusedError
from safelight.cli.server.worker import serve_metrics, with_worker
from safelight.config import ModelSettings, Settings, WorkerSettings
from tests.cli.running import run_safelight
from tests.e2e.processes import REPOSITORY, free_port

NOBODY = "http://127.0.0.1:9"


def test_the_version_is_told(cli: CliRunner) -> None:
    """On standard output."""
    result = cli.invoke(app, ["--version"])
    assert (result.exit_code, result.stdout.strip()) == (0, f"safelight {__version__}")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["up", "--once"], "--prompt"),
        (["up", "--port", "70000"], "--port"),
        (["worker", "--slots", "0"], "--slots"),
        (["submit"], "PROMPT"),
        (["submit", "x", "--cache", "sometimes"], "--cache"),
        (["submit", "x", "--dim", "team"], "NAME=VALUE"),
        (["submit", "x", "--dim", "a=1", "--dim", "a=2"], "twice"),
        (["submit", "x", "--start-at", "tomorrow"], "--start-at"),
        (["submit", "x", "--start-at", "2030-01-31T12:00:00"], "time zone"),
        (["submit", "x", "--url", "127.0.0.1:8080"], "--url"),
        (["submit", "x", "--key", "schlüssel"], "key"),
        (["submit", "x", "--key", "a\nb"], "key"),
        (["submit", "caf\udcff"], "prompt is not text"),
        (["submit", "x", "--dim", "team=\udcff"], "dimensions is not text"),
        (["jobs", "show", ""], "not the id"),
        (["jobs", "watch", ".."], "not the id"),
        (["jobs", "cancel", "\udcff"], "not the id"),
        (["jobs", "ls", "--state", "asleep"], "--state"),
        (["jobs", "redrive", "--state", "canceled"], "--state"),
        (["jobs", "redrive", "--limit", "0"], "--limit"),
        (["jobs", "redrive", "--after", "yesterday"], "--after"),
        (["jobs", "redrive", "--before", "9999999w"], "--before"),
        (["jobs", "ls", "--after", "999999w"], "--after"),
        (["jobs", "redrive", "--dim", "team"], "NAME=VALUE"),
        (["jobs", "redrive", "--ended-after", "yesterday"], "--ended-after"),
        (["jobs", "cancel", "--ended-after", "2h"], "--ended-after"),
        (["lanes", "pause"], "LANE"),
        (["lanes", "pause", ".."], "not the name"),
        (["lanes", "resume", "\udcff"], "not the name"),
        (["keys", "create", "ann", "--weight", "0"], "--weight"),
        (["keys", "create", "ann", "--weight", "nan"], "--weight"),
        (["keys", "create", "two\nlines"], "NAME"),
        (["keys", "revoke", "7"], "no key's id"),
        (["keys", "ls", "--state", "gone"], "--state"),
        (["audit", "--after", "yesterday"], "--after"),
        (["webhooks", "deliveries", "--type", "job.lost"], "--type"),
        (["webhooks", "redeliver"], "--failed"),
        (["webhooks", "redeliver", "7", "--failed"], "--failed"),
        (["webhooks", "change", "7"], "name what changes"),
        (["migrate", "--config", "/nowhere/safelight.toml"], "SAFELIGHT_CONFIG"),
    ],
    ids=lambda value: ascii(" ".join(value)) if isinstance(value, list) else value,
)
def test_wrong_usage_is_told_with_what_is_wrong(cli: CliRunner, arguments: list[str], words: str) -> None:
    """Exit code 2; the message names the option or argument."""
    result = cli.invoke(app, arguments)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert "a\nb" not in result.stderr


@pytest.mark.parametrize("command", [["submit", "x"], ["jobs", "ls"], ["jobs", "show", "../../livez"]])
@pytest.mark.parametrize("answer", [{}, [], None, {"id": None}, {"data": [{}], "next_cursor": None}])
def test_a_server_of_another_kind_is_exit_code_3(
    cli: CliRunner, command: list[str], answer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No traceback; an id stays one part of the path."""
    asked: list[bytes] = []

    def send(_client: httpx.Client, request: httpx.Request, **_options: object) -> httpx.Response:
        asked.append(request.url.raw_path)
        return httpx.Response(200, json=answer, request=request)

    monkeypatch.setattr(httpx.Client, "send", send)
    result = cli.invoke(app, command)
    assert result.exit_code == 3, result.output
    assert "not like Safelight" in result.stderr
    assert command[1] != "show" or asked == [b"/v1/jobs/..%2F..%2Flivez"]


@pytest.mark.parametrize("command", [["submit", "x"], ["jobs", "ls"], ["jobs", "watch", "x"], ["jobs", "watch"]])
def test_a_server_that_is_not_there_is_exit_code_3(cli: CliRunner, command: list[str]) -> None:
    """The message names the address and what to do."""
    result = cli.invoke(app, command, env={"SAFELIGHT_URL": NOBODY})
    assert result.exit_code == 3, result.output
    assert NOBODY in result.stderr
    assert "safelight up" in result.stderr


@pytest.mark.parametrize("command", ["api", "worker"])
def test_distributed_processes_refuse_what_lives_in_one_process(command: str, settings: dict[str, str]) -> None:
    """The message says which variables to set."""
    done = run_safelight(command, environment=settings)
    assert done.returncode == 2
    assert "SAFELIGHT_STORE=postgresql://" in done.stderr
    assert "SAFELIGHT_BROKER=amqp://" in done.stderr


def test_client_commands_load_nothing_heavy() -> None:
    """No torch, no server, no database driver, not even an HTTP client before a command runs."""
    heavy = ("torch", "diffusers", "dramatiq", "litestar", "uvicorn", "psycopg", "httpx", "PIL", "numpy")
    program = f"import sys, safelight.cli.app; print(*[name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""


def test_options_of_the_worker_override_the_settings() -> None:
    """Lanes that no model is in are refused."""
    settings = Settings(models={"a": ModelSettings(model="x", lane="fast")})
    changed = with_worker(settings, {"lanes": ["fast"], "slots": 7, "device": "cpu"}).worker
    assert (changed.lanes, changed.slots, changed.device) == (("fast",), 7, "cpu")
    assert changed.lease_s == settings.worker.lease_s
    with pytest.raises(RefusedError, match="no model is in lane slow"):
        with_worker(settings, {"lanes": ["slow"]})
    with pytest.raises(RefusedError, match="lanes"):
        with_worker(settings, {"lanes": ["Not A Lane"]})


def test_a_second_worker_on_a_host_finds_another_port_for_its_metrics() -> None:
    """The wanted one is taken; 0 serves none."""
    wanted = WorkerSettings(metrics_port=free_port())
    with ExitStack() as stack:
        first = serve_metrics(wanted, stack)
        second = serve_metrics(wanted, stack)
        assert first == wanted.metrics_port
        assert second not in (None, first)
        for port in (first, second):
            assert "python_info" in httpx.get(f"http://127.0.0.1:{port}/metrics").text
        assert serve_metrics(WorkerSettings(metrics_port=0), stack) is None


def test_several_pictures_get_numbers() -> None:
    """Before the ending."""
    assert targets(Path("/a/b.png"), 1) == [Path("/a/b.png")]
    assert targets(Path("/a/b.png"), 2) == [Path("/a/b-1.png"), Path("/a/b-2.png")]
    assert targets(Path("/a/b"), 2) == [Path("/a/b-1"), Path("/a/b-2")]
