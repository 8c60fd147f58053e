"""``safelight jobs cancel`` by filter, ``jobs attempts``, ``workers`` and ``status``, over the API."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from safelight.cli.client.http import Client
from safelight.cli.client.many import CANCEL, REDRIVE, Sure, act_on_many
from safelight.cli.client.operator_look import sparkline
from safelight.cli.exits import RefusedError
from tests.cli.test_client import Commands, commands

__all__ = ["commands"]


def test_jobs_are_counted_and_canceled_by_filter(commands: Commands) -> None:
    """A dry run counts, a no leaves all, a yes cancels; neither an id nor a filter, or both, are refused."""
    commands.run("lanes", "pause", "default")
    ids = [
        json.loads(
            commands.run("submit", f"a cat {seed}", "--seed", str(seed), "--dim", "team=cancel", "--json").stdout
        )["id"]
        for seed in range(2)
    ]
    where = ("--state", "queued", "--dim", "team=cancel")
    assert commands.run("jobs", "ls", *where, "--count").stdout.strip() == "2"
    assert commands.run("jobs", "cancel", *where, "--dry-run").stdout.strip() == "2"
    assert "nothing was canceled" in commands.run("jobs", "cancel", *where, code=2).stderr
    assert sorted(commands.run("jobs", "cancel", *where, "--yes").stdout.split()) == sorted(ids)
    assert commands.run("jobs", "ls", *where, "--count").stdout.strip() == "0"
    for wrong in ((), (ids[0], "--model", "m"), ("--dim", "team")):
        commands.run("jobs", "cancel", *wrong, code=2)
    commands.run("lanes", "resume", "default")


def counted_api(posted: list[dict[str, Any]], **counted: Any) -> Client:
    """An API whose dry run counts so, and whose cancel ends at once; it keeps what is posted."""

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        posted.append(body)
        found = {"count": 1, "at_least": False, "as_of": "2030-01-31T12:00:00Z", "job_ids": [], "next_cursor": None}
        return httpx.Response(200, json=found | counted if body.get("dry_run") else found)

    client = Client("http://api.test", None)
    client.http = httpx.Client(base_url="http://api.test", transport=httpx.MockTransport(answer))
    return client


@pytest.mark.parametrize(
    ("before", "sent"),
    [
        (None, "2030-01-31T12:00:00Z"),
        ("2030-01-31T14:00:00+01:00", "2030-01-31T12:00:00Z"),
        ("2030-01-31T12:30:00+01:00", "2030-01-31T12:30:00+01:00"),
    ],
)
def test_nothing_that_came_after_the_count_is_canceled(before: str | None, sent: str) -> None:
    """Whatever --before says: the earlier time counts, in whatever zone it is written."""
    posted: list[dict[str, Any]] = []
    where = {"states": ["queued"]} | ({"created_before": before} if before else {})
    with counted_api(posted) as client:
        act_on_many(client, CANCEL, where, Sure(yes=True, of_all=False), dry_run=False, as_json=False)
    assert (posted[1]["created_before"], posted[1]["expected"]) == (sent, 1)


@pytest.mark.parametrize("count", [0, 1])
def test_a_yes_is_not_for_what_could_not_be_counted(count: int) -> None:
    """Unless all are meant; even where counting stopped before the first."""
    posted: list[dict[str, Any]] = []
    where = {"states": ["queued"]}
    with counted_api(posted, count=count, at_least=True) as client:
        with pytest.raises(RefusedError, match="there may be more"):
            act_on_many(client, CANCEL, where, Sure(yes=True, of_all=False), dry_run=False, as_json=False)
        assert len(posted) == 1
        act_on_many(client, CANCEL, where, Sure(yes=True, of_all=True), dry_run=False, as_json=False)
    assert posted[-1]["all"] is True


def test_what_is_redriven_has_its_own_time_and_limit(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing that ended after the count; so many at most, whatever the count; ids and a number for scripts."""
    posted: list[dict[str, Any]] = []
    with counted_api(posted) as client:
        act_on_many(client, REDRIVE, {}, Sure(yes=True, of_all=False), dry_run=False, as_json=True)
        assert json.loads(capsys.readouterr().out) == {"count": 0, "job_ids": []}
        assert posted[1] == {"finished_before": "2030-01-31T12:00:00Z", "expected": 1}
    with counted_api(posted, count=9, at_least=True) as client:
        act_on_many(client, REDRIVE, {}, Sure(yes=True, of_all=False, limit=2000), dry_run=False, as_json=False)
    assert (posted[-1]["limit"], posted[-1]["all"]) == (1000, True)


def test_a_dry_run_of_who_may_only_look_counts_what_a_list_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the jobs that are not at their end; nothing is posted again."""
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if request.method == "POST":
            return httpx.Response(403, json={"detail": "this wants a key with the scope submit"})
        return httpx.Response(200, json={"count": 3, "at_least": True, "as_of": "2030-01-31T12:00:00Z"})

    with Client("http://api.test", None) as client:
        client.http = httpx.Client(base_url="http://api.test", transport=httpx.MockTransport(answer))
        act_on_many(client, CANCEL, {"lane": "big"}, Sure(yes=True, of_all=False), dry_run=True, as_json=False)
    assert capsys.readouterr().out.strip() == "3+"
    assert [(one.method, one.url.path) for one in asked] == [("POST", "/v1/jobs/cancel"), ("GET", "/v1/jobs/count")]
    assert asked[1].url.params.get_list("state") == ["scheduled", "queued", "running"]


def test_workers_and_the_whole_are_looked_at(commands: Commands) -> None:
    """Tables for people, JSON for scripts; a worker that is not there is refused in the API's words."""
    page = commands.json("workers", "ls")
    assert page["object"] == "list"
    workers = page["data"]
    listed = commands.run("workers", "ls").stdout
    assert all(worker["id"] in listed for worker in workers)
    assert "no such worker" in commands.run("workers", "drain", "7", code=2).stderr
    status = commands.run("status", "--zone", "Europe/Berlin").stdout
    assert "queued" in status
    assert "charged today (Europe/Berlin)" in status
    assert commands.json("status")["object"] == "overview"


def test_a_sparkline_has_a_bar_for_each_count() -> None:
    """The highest is full; nothing but noughts is a line on the ground."""
    assert sparkline([0, 1, 2]) == "▁▄█"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([]) == ""
