"""Webhooks on the command line, and their way through ``safelight up`` to a real receiver."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from standardwebhooks.webhooks import Webhook
from typer.testing import CliRunner

from safelight.cli.client.delivery_look import show_deliveries
from tests.cli.running import write_settings
from tests.cli.test_client import Commands
from tests.e2e.processes import Process, Server, free_port, wait_for
from tests.webhooks.receiver import Receiver, receiver

SETTINGS = "[webhooks]\nallow_http = true\nallow_private = true\nlook_s = 0.2\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """``safelight up`` that may call loopback, on a SQLite file: nothing else is to be started."""
    folder = Path(tmp_path_factory.mktemp("webhooks"))
    environment = write_settings(folder, SETTINGS, "simulated") | {"SAFELIGHT_STORE": f"sqlite:///{folder}/store.db"}
    port = free_port()
    process = Process(folder, "up", ["up", "--port", str(port)], environment)
    try:
        yield Server(process, port)
        assert process.stop() == 0, process.tail()
    finally:
        process.kill()


@pytest.fixture
def commands(cli: CliRunner, server: Server) -> Commands:
    """Client commands against it."""
    return Commands(cli, server.url)


@pytest.fixture
def hook() -> Iterator[Receiver]:
    """A receiver that is up."""
    with receiver() as here:
        yield here


def test_from_a_submit_to_its_receiver(commands: Commands, server: Server, hook: Receiver) -> None:
    """A job's own hook, and an endpoint of all jobs with its secret; a repeat out of the cache is told too."""
    secret = commands.run("webhooks", "create", f"{hook.url}/all", "--description", "[all]").stdout.strip()
    [endpoint] = commands.json("webhooks", "list")["data"]
    job = commands.json("submit", "a red circle", "--seed", "7", "--webhook", f"{hook.url}/mine", "--wait")
    assert job["webhook"]["url"] == f"{hook.url}/mine"
    received = {found.path: found for found in hook.wait(2)}
    for path in ("/all", "/mine"):
        message = json.loads(received[path].body)
        assert (message["type"], message["data"]["id"]) == ("job.succeeded", job["id"])
    assert server.http.get(message["data"]["images"][0]["url"]).status_code == 200
    Webhook(secret).verify(received["/all"].body, received["/all"].headers)
    assert "webhook-signature" not in received["/mine"].headers
    hit = commands.json("submit", "a red circle", "--seed", "7")
    assert hit["cache"] == "hit"
    assert json.loads(hook.wait(3)[2].body)["data"]["id"] == hit["id"]
    listed = commands.run("webhooks", "list").stdout
    assert endpoint["id"] in listed
    assert "[all]" in listed
    assert commands.run("webhooks", "delete", endpoint["id"]).stdout.strip() == "deleted"
    assert commands.run("webhooks", "list").output.strip() == "No webhooks."


def test_tests_deliveries_and_secrets(commands: Commands, hook: Receiver) -> None:
    """What failed is told and can be asked for anew; a rotated secret signs beside the old one."""
    made = commands.json("webhooks", "create", hook.url, "-e", "job.dead", "-e", "job.failed")
    assert made["events"] == ["job.dead", "job.failed"]
    hook.answers = [500]
    sent = commands.run("webhooks", "test", made["id"]).stdout.strip()
    hook.wait()

    def told() -> str:
        page = commands.json("webhooks", "deliveries", "--webhook", made["id"])
        return str(page["data"][0]["error"] or "")

    assert wait_for("the note of the failure", told) == "answered 500"
    assert "answered 500" in commands.run("webhooks", "deliveries", "--state", "pending").stdout
    shown = commands.run("webhooks", "deliveries").stdout
    host = hook.url.removeprefix("http://")
    for words in (sent, made["id"][:8], f"{host} ", "webhook.test", "pending", "in "):
        assert words in shown
    rotated = commands.json("webhooks", "rotate", made["id"])
    assert commands.run("webhooks", "redeliver", sent).stdout.strip() == sent
    first, second = hook.wait(2)
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == sent
    for secret in (made["secret"], rotated["secret"]):
        Webhook(secret).verify(second.body, second.headers)
    assert wait_for("the delivery", lambda: delivered(commands, made["id"]))
    commands.run("webhooks", "delete", made["id"])


def test_a_webhook_is_turned_off_and_on(commands: Commands, hook: Receiver) -> None:
    """Off, it is told of nothing."""
    made = commands.json("webhooks", "create", hook.url)
    assert commands.run("webhooks", "disable", made["id"]).stdout.strip() == "disabled"
    assert "off" in commands.run("webhooks", "list").stdout
    assert commands.json("webhooks", "enable", made["id"])["disabled"] is False
    changed = commands.json("webhooks", "change", made["id"], "-e", "job.dead", "--description", "of the [dead]")
    assert (changed["events"], changed["description"], changed["url"]) == (["job.dead"], "of the [dead]", hook.url)
    assert "of the [dead]" in commands.run("webhooks", "change", made["id"], "--address", f"{hook.url}/b").stdout
    assert commands.json("webhooks", "delete", made["id"]) == {"id": made["id"], "deleted": True}


def test_what_failed_is_sent_anew_by_a_filter(commands: Commands) -> None:
    """Counted and asked first; nothing of that kind failed here."""
    where = ("webhooks", "redeliver", "--type", "job.scheduled")
    assert commands.run(*where, "--dry-run").stdout.strip() == "0"
    assert "0 messages on their way" in commands.run(*where, "--yes").stderr
    told = commands.json("webhooks", "redeliver", "--failed", "--yes")
    assert (told["count"], told["more"]) == (0, False)
    assert commands.json("webhooks", "deliveries", "--type", "job.scheduled")["data"] == []


@pytest.mark.parametrize("webhook_id", ["01920000-0000-7000-8000-00000000000a", None])
def test_deliveries_fit_into_a_hundred_columns(webhook_id: str | None) -> None:
    """All but their ids, which need more room."""
    delivery: dict[str, Any] = {
        "id": "01930000-0000-7000-8000-00000000000b", "webhook_id": webhook_id, "job_id": None, "type": "job.succeeded",
        "state": "pending", "attempts": 12, "status": None, "error": "[the] connection was refused by the receiver",
        "created_at": "2026-01-31T12:00:00Z", "next_at": "2026-01-31T12:00:00Z",
    }  # fmt: skip
    console = Console(width=100, file=io.StringIO())
    assert show_deliveries([delivery], ["hooks.example:8443"], console)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert max(map(len, shown.splitlines())) <= 100
    for words in ("hooks.example:8443", "01920000" if webhook_id else "a job's", "succeeded", "12", "[the]", "now"):
        assert words in shown
    assert delivery["id"] not in shown


def delivered(commands: Commands, webhook_id: str) -> bool:
    """True once the last message to the webhook has arrived."""
    return bool(commands.json("webhooks", "deliveries", "--webhook", webhook_id, "-s", "delivered")["data"])


def test_what_is_refused(commands: Commands) -> None:
    """With the reason, and exit code 2."""
    refused = commands.run("webhooks", "create", "http://169.254.169.254/latest", code=2)
    assert "link-local addresses are not called" in refused.output
    assert "webhook" in commands.run("submit", "x", "--webhook", "ftp://a.example", code=2).output
    for command in ("delete", "test", "rotate", "redeliver", "enable"):
        assert "no " in commands.run("webhooks", command, "nowhere", code=2).output
    assert "not an id" in commands.run("webhooks", "delete", "..", code=2).output
    assert commands.run("webhooks", "deliveries", "--job", "x", code=2).exit_code == 2
