"""What jobs a command is about: the options of the filter, which commands that choose jobs share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from jobstore.job import JobState
from safelight.cli.client.submit import dimensions_of
from safelight.cli.client.times import past_of
from safelight.cli.exits import reported

Command = Callable[..., None]


def _text(*names: str, says: str) -> Any:
    return Annotated[str | None, typer.Option(*names, help=says)]


_TIME = "2h (ago), or a time (UTC)."
_OPTIONS: dict[str, tuple[str, Any]] = {
    "state": (
        "states",
        Annotated[
            list[JobState] | None, typer.Option("--state", "-s", help="Only jobs in this state; may be repeated.")
        ],
    ),
    "model": ("model", _text("--model", "-m", says="Only jobs of this model.")),
    "lane": ("lane", _text("--lane", says="Only jobs of this lane.")),
    "of_key": ("key", _text("--of-key", "--key-id", says="Only jobs of the API key with this id.")),
    "worker": ("worker", _text("--worker", says="Only jobs that the worker with this id has or had.")),
    "worker_host": ("host", _text("--worker-host", says="The same by the worker's host.")),
    "dim": (
        "dimensions",
        Annotated[
            list[str] | None,
            typer.Option("--dim", metavar="NAME=VALUE", help="A dimension of the jobs; may be repeated."),
        ],
    ),
    "text": ("text", _text("--text", says="A part of the prompt, or a job's whole id.")),
    "error": ("error_code", _text("--error", says="Only jobs with this error code.")),
    "after": ("created_after", _text("--after", says=f"Only jobs created after: {_TIME}")),
    "before": ("created_before", _text("--before", says=f"Only jobs created before: {_TIME}")),
    "ended_after": ("finished_after", _text("--ended-after", says=f"Only jobs that ended after: {_TIME}")),
    "ended_before": ("finished_before", _text("--ended-before", says=f"Only jobs that ended before: {_TIME}")),
}
"""By the parameter's name: the field of the filter, and the option."""

_TIMES = {
    field: f"--{name.replace('_', '-')}" for name, (field, _) in _OPTIONS.items() if name.endswith(("after", "before"))
}


def filtered(**own: Any) -> Callable[[Command], Command]:
    """Give a command the options of the filter in place of its parameter ``where``, which gets what they name.

    ``own`` are options that it has of its own instead, by their parameters' names; None leaves one out. What the
    command raises is reported.
    """
    options = {name: (field, own.get(name, option)) for name, (field, option) in _OPTIONS.items()}
    options = {name: (field, option) for name, (field, option) in options.items() if option is not None}

    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_filter(**given: Any) -> None:
            with reported():
                where = named(**{field: given.pop(name) for name, (field, _) in options.items()})
                command(where=where, **given)

        # Typer reads options off signatures.
        hints = get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command).parameters.values():
            if parameter.name != "where":
                parameters.append(parameter.replace(annotation=hints[parameter.name]))
                continue
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            parameters += [
                inspect.Parameter(name, kind, default=None, annotation=option) for name, (_, option) in options.items()
            ]
        with_filter.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        with_filter.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return with_filter

    return decorate


def named(**fields: Any) -> dict[str, Any]:
    """The filter of these fields as the body of a request has it; what is not given is left out.

    Raises RefusedError on a dimension that is not name=value, and on what is no time.
    """
    fields |= {
        "states": list(dict.fromkeys(fields.get("states") or ())),
        "dimensions": dimensions_of(fields.get("dimensions") or []),
        **{field: past_of(option, fields.get(field)) for field, option in _TIMES.items()},
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
