"""``safelight outputs``: the commands that look after stored pictures."""

from __future__ import annotations

import typer

from safelight.cli.outputs.orphans import orphans

outputs = typer.Typer(help="Look after stored pictures.", no_args_is_help=True)
outputs.command()(orphans)


@outputs.callback()
def _outputs() -> None:
    """Look after stored pictures."""
