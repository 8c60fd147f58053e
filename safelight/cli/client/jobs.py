"""``safelight jobs``: the commands that look after jobs."""

from __future__ import annotations

import typer

from safelight.cli.client.attempts import attempts
from safelight.cli.client.cancel import cancel
from safelight.cli.client.ls import ls
from safelight.cli.client.redrive import redrive
from safelight.cli.client.retry import retry
from safelight.cli.client.show import show
from safelight.cli.client.watch import watch

jobs = typer.Typer(help="List, show, watch, cancel, retry and redrive jobs.", no_args_is_help=True)
for command in (ls, show, attempts, watch, cancel, retry, redrive):
    jobs.command()(command)
