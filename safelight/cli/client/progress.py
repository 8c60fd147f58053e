"""Waits for a job with a progress bar on standard error."""

from __future__ import annotations

from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from safelight.cli.client.events import Event, follow
from safelight.cli.client.http import Client, Job
from safelight.cli.consoles import err
from safelight.cli.exits import JobFailedError

ENDED = frozenset({"succeeded", "failed", "canceled", "dead"})


def wait_for_end(client: Client, job: Job) -> Job:
    """The job once it has succeeded; its warnings are printed. Raises JobFailedError, and what ``follow`` raises."""
    if job["state"] not in ENDED:
        watch(client, job)
        job = client.job(job["id"])
    for warning in job["warnings"]:
        err().print(f"[yellow]warning:[/] {escape(warning)}", soft_wrap=True)
    if job["state"] != "succeeded":
        raise JobFailedError(f"job {job['id']} is {job['state']}{_why(job)}", "safelight jobs show " + job["id"])
    return job


def watch(client: Client, job: Job) -> None:
    """Show how the job gets on until it ends."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} steps"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err(), transient=True, disable=not err().is_terminal) as bar:
        task = bar.add_task(_describe(job["state"], job), total=max(1, job["request"]["steps"]))
        for event in follow(client, job["id"]):
            _show(bar, task, event, job)


def _show(bar: Progress, task: TaskID, event: Event, job: Job) -> None:
    if event.kind == "progress":
        steps = max(1, event.data["steps"])
        bar.update(task, completed=event.data["step"], total=steps, description=_describe("running", job))
    elif event.kind in ("state", "done"):
        bar.update(task, description=_describe(event.data["state"], job))


def _describe(state: str, job: Job) -> str:
    prompt = job["request"]["prompt"]
    return f"{state} · {escape(prompt[:40])}{'…' if len(prompt) > 40 else ''}"


def _why(job: Job) -> str:
    error = job.get("error")
    return f": {error['message']} ({error['code']})" if error else ""
