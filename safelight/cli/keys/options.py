"""Options of the commands about keys, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Any

import typer

from jobstore.keys import MAX_WEIGHT, MIN_WEIGHT
from safelight.cli.exits import RefusedError
from safelight.cli.spans import is_span, span_of
from safelight.config import Settings

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The key's id, from  safelight keys ls.")]
ScopeOption = Annotated[
    list[str] | None,  # checked_fields says in plain words what one must be
    typer.Option(
        "--scope",
        "-s",
        help="What the key may do: submit, read, observe, admin; may be repeated.",
        show_default="submit and read",
    ),
]
ModelOption = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", help="A model it may use; may be repeated.", show_default="all"),
]
NetworkOption = Annotated[
    list[str] | None,
    typer.Option(
        "--from", help="A network that it may be used from, like 10.0.0.0/8; may be repeated.", show_default="anywhere"
    ),
]
TeamOption = Annotated[str | None, typer.Option(help="The team that its jobs count for.", show_default=False)]
CustomerOption = Annotated[str | None, typer.Option(help="The customer that its jobs count for.", show_default=False)]
ExpiresOption = Annotated[
    str | None,
    typer.Option("--expires", help="Until when it counts: 30d, 12h, 2030-01-31 (that day, UTC) or a time.",
                 show_default="never"),
]  # fmt: skip
ForceOption = Annotated[bool, typer.Option("--force", help="Even if no admin key is left in force.")]
WEIGHT_HELP = "Its share of a lane beside keys of weight 1."
WEIGHT_BOUNDS = {"min": MIN_WEIGHT, "max": MAX_WEIGHT}

_OPTIONS = {"name": "NAME", "scopes": "--scope", "models": "--model", "networks": "--from", "expires_at": "--expires"}


def checked_fields(fields: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """The fields of a key as the store takes them. Raises RefusedError naming the option."""
    from jobstore.key_fields import KeyFieldError, checked

    def own_name(model: str) -> str | None:
        found = settings.find_model(model)
        return found[0] if found else None

    try:
        return checked(fields, own_name)
    except KeyFieldError as error:
        option = _OPTIONS.get(error.field, f"--{error.field}")
        raise RefusedError(f"{option} {error.detail}") from error


def moment_of(option: str, text: str) -> datetime:
    """A moment: so long from now, the end of a day (UTC), or a time with its zone. Raises RefusedError."""
    if is_span(text):
        return datetime.now(UTC) + span_of(option, text)
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is None and at.time() == time() and "T" not in text and " " not in text:
            return at.replace(tzinfo=UTC) + timedelta(days=1)
    except (ValueError, OverflowError) as error:
        raise RefusedError(f"{option} {text!r} is neither like 30d, nor a date or time like 2030-01-31") from error
    if at.tzinfo is None:
        raise RefusedError(f"{option} {text!r} has no time zone; append Z or an offset like +02:00")
    return at
