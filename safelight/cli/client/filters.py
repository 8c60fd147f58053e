"""The options by which commands choose jobs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from jobstore.job import JobState
from safelight.cli.client.submit import dimensions_of
from safelight.cli.client.times import past_of

StatesOption = Annotated[
    list[JobState] | None, typer.Option("--state", "-s", help="Only jobs in this state; may be repeated.")
]
ModelOption = Annotated[str | None, typer.Option("--model", "-m", help="Only jobs of this model.")]
LaneOption = Annotated[str | None, typer.Option(help="Only jobs of this lane.")]
OwnerOption = Annotated[str | None, typer.Option("--of-key", help="Only jobs of the API key with this id.")]
WorkerOption = Annotated[str | None, typer.Option(help="Only jobs that the worker with this id has or had.")]
HostOption = Annotated[str | None, typer.Option("--worker-host", help="The same by the worker's host.")]
DimensionsOption = Annotated[
    list[str] | None,
    typer.Option("--dim", metavar="NAME=VALUE", help="A dimension of the jobs; may be repeated."),
]
TextOption = Annotated[str | None, typer.Option("--text", help="A part of the prompt, or a job's whole id.")]
ErrorOption = Annotated[str | None, typer.Option("--error", help="Only jobs with this error code.")]
AfterOption = Annotated[str | None, typer.Option("--after", help="Only jobs created after: 2h (ago), or a time (UTC).")]
BeforeOption = Annotated[
    str | None, typer.Option("--before", help="Only jobs created before: 2h (ago), or a time (UTC).")
]


def named(**options: Any) -> dict[str, Any]:
    """The filter of these options as the body of a request has it; what is not given is left out.

    Raises RefusedError on a dimension that is not name=value, and on what is no time.
    """
    fields = {
        **options,
        "states": list(dict.fromkeys(options.get("states") or ())),
        "dimensions": dimensions_of(options.get("dimensions") or []),
        "created_after": past_of("--after", options.get("created_after")),
        "created_before": past_of("--before", options.get("created_before")),
    }
    return {name: value for name, value in fields.items() if value}


def as_query(where: dict[str, Any]) -> dict[str, Any]:
    """The same as the query of a list."""
    query = dict(where)
    states, dimensions = query.pop("states", None), query.pop("dimensions", {})
    if states:
        query["state"] = states
    if dimensions:
        query["dimension"] = [f"{name}:{value}" for name, value in dimensions.items()]
    return query
