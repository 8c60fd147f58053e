"""Exit codes, and how errors turn into them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import typer

from safelight.cli.consoles import err
from safelight.config import ConfigError


class ExitCode(IntEnum):
    """What a command's exit code says (docs/cli.md)."""

    OK = 0
    FAILED = 1  # the job did not succeed, a check failed, or a server could not start
    REFUSED = 2  # wrong usage, wrong settings, or a request that the API does not accept
    UNREACHABLE = 3  # no server there, or it can't answer at the moment
    INTERRUPTED = 130  # Ctrl-C


class CommandError(Exception):
    """A command can't do what was asked; the message is for people. ``hint`` says what to do about it."""

    code = ExitCode.FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class StartError(CommandError):
    """A server can't start."""


class JobFailedError(CommandError):
    """The job ended, and not well."""


class RefusedError(CommandError):
    """What was asked for is not accepted."""

    code = ExitCode.REFUSED


class UnreachableError(CommandError):
    """There is no server, or it can't answer at the moment."""

    code = ExitCode.UNREACHABLE


@contextmanager
def reported() -> Iterator[None]:
    """Print the errors of a command instead of a traceback, and exit with their code."""
    try:
        yield
    except ConfigError as error:
        complain(str(error))
        raise typer.Exit(ExitCode.REFUSED) from error
    except CommandError as error:
        complain(str(error), error.hint)
        raise typer.Exit(error.code) from error


def complain(message: str, hint: str = "") -> None:
    """Print an error on standard error."""
    from rich.markup import escape

    err().print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)
    if hint:
        err().print(f"[dim]{escape(hint)}[/]", soft_wrap=True)
