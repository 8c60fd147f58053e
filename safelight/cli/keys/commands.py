"""``safelight keys``: the commands that look after API keys."""

from __future__ import annotations

import typer

from safelight.cli.keys.create import create
from safelight.cli.keys.ls import ls
from safelight.cli.keys.revoke import revoke

keys = typer.Typer(help="Make, list and revoke API keys, straight in the store.", no_args_is_help=True)
for command in (create, ls, revoke):
    keys.command()(command)
