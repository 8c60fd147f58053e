"""``safelight keys``: the commands that look after API keys."""

from __future__ import annotations

import typer

from safelight.cli.keys.change import change
from safelight.cli.keys.create import create
from safelight.cli.keys.ls import ls
from safelight.cli.keys.revoke import revoke
from safelight.cli.keys.rotate import rotate
from safelight.cli.keys.show import show

keys = typer.Typer(help="Make, list, change, rotate and revoke API keys, straight in the store.", no_args_is_help=True)
for command in (create, ls, show, change, rotate, revoke):
    keys.command()(command)
keys.command("list", hidden=True)(ls)
