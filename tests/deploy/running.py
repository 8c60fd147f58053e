"""The command as containers are told to run it, taken apart but not run."""

from __future__ import annotations

from collections.abc import Sequence

from typer.main import get_command

from safelight.cli.app import app


def check_command(arguments: Sequence[str]) -> None:
    """Return if ``safelight ARGUMENTS`` is a command with such options; raises a usage error else."""
    name, *rest = arguments
    group = get_command(app)
    command = group.commands[name]  # type: ignore[attr-defined]
    command.make_context(name, list(rest))
