"""How jobs look on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.markup import escape
from rich.table import Table

from safelight.cli.client.http import Job
from safelight.cli.money import money

COLOURS = {
    "scheduled": "blue",
    "queued": "cyan",
    "running": "yellow",
    "succeeded": "green",
    "failed": "red",
    "dead": "bold red",
    "canceled": "dim",
}

_TITLES = {"cache": "cache mode"}  # beside "cache", which says what came of it


def jobs_table(jobs: Sequence[Job], now: datetime | None = None) -> Table:
    """One line a job, newest first."""
    now = now or datetime.now(UTC)
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("ID", no_wrap=True, min_width=36)
    for name in ("STATE", "MODEL", "AGE", "PROGRESS", "COST"):
        table.add_column(name, no_wrap=True)
    failed = any(job["error"] for job in jobs)
    if failed:
        table.add_column("ERROR", no_wrap=True)
    table.add_column("PROMPT", overflow="ellipsis", no_wrap=True, ratio=1)
    for job in jobs:
        request = job["request"]
        table.add_row(
            job["id"],
            state_of(job),
            escape(job["model"]),
            age(job["created_at"], now),
            progress_of(job),
            cost_of(job),
            *([escape(job["error"]["code"]) if job["error"] else ""] if failed else []),
            escape(request["prompt"]),
        )
    return table


def state_of(job: Job) -> str:
    """The state in its colour."""
    state = job["state"]
    return f"[{COLOURS.get(state, 'default')}]{state}[/]"


def progress_of(job: Job) -> str:
    """Steps done, the place in the queue, or nothing."""
    if job["state"] == "running":
        return f"{job['progress']['step']}/{job['progress']['steps']}"
    queue = job["queue"]
    place = f"{queue['position']} in line" if queue["position"] else ""
    if queue.get("paused"):
        return f"{place}, lane paused".lstrip(", ")
    if not place or queue["eta_s"] is None:
        return place
    return f"{place}, starts in " + ("a moment" if queue["eta_s"] < 1 else f"about {span(queue['eta_s'])}")


def cost_of(job: Job) -> str:
    """What was charged, or in brackets what is reserved."""
    cost = job["cost"]
    ended = job["finished_at"] is not None
    return money(cost["charged"], cost["currency"]) if ended else f"({money(cost['reserved'], cost['currency'])})"


def age(created_at: str, now: datetime) -> str:
    """How long ago, in one unit."""
    return span((now - datetime.fromisoformat(created_at)).total_seconds())


def span(seconds: float) -> str:
    """A time in one unit."""
    seconds = max(0, int(seconds))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def details(job: Job, url: str) -> Table:
    """Everything about one job, a line a fact."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    request = job["request"]
    asked = job.get("fallback_for")
    model = f"{job['model']} (instead of {asked})" if asked else job["model"]
    rows: list[tuple[str, object]] = [("id", job["id"]), ("model", model)]
    shown = request | {"adapters": _pairs(request.get("adapters", {}))}
    rows += [(_TITLES.get(name, name), value) for name, value in shown.items() if name != "model"]
    rows += [("cache", job["cache"]), ("attempts", job["attempts"]), ("dimensions", _pairs(job["dimensions"]))]
    rows += [("gpu seconds", job["cost"]["gpu_seconds"])]
    rows += [(name.replace("_", " "), job[name]) for name in ("created_at", "started_at", "finished_at")]
    rows += [("image", f"{url}{image['url']}  seed {image['seed']}") for image in job["images"]]
    rows += [("warning", warning) for warning in job["warnings"]]
    table.add_row("state", f"{state_of(job)}  {progress_of(job)}")
    for name, value in rows:
        if value not in (None, "", {}):
            table.add_row(name, escape(str(value)))
    table.add_row("cost", cost_of(job))
    if job["error"]:
        table.add_row("error", f"[red]{escape(job['error']['message'])}[/] ({escape(job['error']['code'])})")
    return table


def _pairs(named: dict[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in named.items())
