"""Waits for a job with a progress bar on standard error."""

from __future__ import annotations

from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from jobstore.job import JobState
from safelight.cli.client.events import follow
from safelight.cli.client.http import Client, Job
from safelight.cli.client.look import progress_of
from safelight.cli.consoles import err
from safelight.cli.exits import JobFailedError

ENDED = frozenset(state.value for state in JobState if state.terminal)


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
        task = bar.add_task(_describe(standing(job), job), total=max(1, job["request"]["steps"]))
        shown = str(job["state"])
        for event in follow(client, job["id"]):
            state = "running" if event.kind == "progress" else str(event.data.get("state", shown))
            if state != shown:  # of the state it came with, the job tells more than the event
                bar.update(task, description=_describe(state, job))
                shown = state
            if event.kind == "progress":
                bar.update(task, completed=event.data["step"], total=max(1, event.data["steps"]))


def standing(job: Job) -> str:
    """The state, and what there is to say about the place in the queue."""
    place = progress_of(job) if job["state"] == "queued" else ""
    return f"{job['state']}, {place}" if place else str(job["state"])


def _describe(state: str, job: Job) -> str:
    prompt = job["request"]["prompt"]
    return f"{state} · {escape(prompt[:40])}{'…' if len(prompt) > 40 else ''}"


def _why(job: Job) -> str:
    error = job.get("error")
    return f": {error['message']} ({error['code']})" if error else ""
