"""The command line: which commands there are, and in which order they are listed."""

from __future__ import annotations

from typing import Annotated

import typer

from safelight.cli.server.api import api
from safelight.cli.server.migrate import migrate
from safelight.cli.server.up import up
from safelight.cli.server.worker import worker
from safelight.cli.version import print_version

app = typer.Typer(
    name="safelight",
    help="A durable render queue for diffusion models.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def safelight(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A durable render queue for diffusion models."""


app.command()(up)
app.command()(api)
app.command()(worker)
app.command()(migrate)
