"""``safelight jobs cancel`` by filter, ``jobs attempts``, ``workers`` and ``status``, over the API."""

from __future__ import annotations

import json

from safelight.cli.client.operator_look import sparkline
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


def test_workers_and_the_whole_are_looked_at(commands: Commands) -> None:
    """Tables for people, JSON for scripts; a worker that is not there is refused in the API's words."""
    workers = json.loads(commands.run("workers", "ls", "--json").stdout)
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
