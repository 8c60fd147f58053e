"""``safelight --version``."""

from __future__ import annotations

import typer

from safelight import __version__


def print_version(wanted: bool) -> None:
    """Print the version and leave."""
    if wanted:
        typer.echo(f"safelight {__version__}")
        raise typer.Exit
