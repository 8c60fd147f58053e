"""The command line: which commands there are, and in which order they are listed."""

from __future__ import annotations

from typing import Annotated

import typer

from safelight.cli.client.canary import canary
from safelight.cli.client.costs import costs
from safelight.cli.client.jobs import jobs
from safelight.cli.client.lanes import lanes
from safelight.cli.client.quotas import quotas
from safelight.cli.client.status import status
from safelight.cli.client.submit import submit
from safelight.cli.client.webhooks import webhooks
from safelight.cli.client.workers import workers
from safelight.cli.doctor.command import doctor
from safelight.cli.grpc import grpc
from safelight.cli.keys.audit import audit
from safelight.cli.keys.commands import keys
from safelight.cli.outputs.commands import outputs
from safelight.cli.reports import reports
from safelight.cli.server.api import api
from safelight.cli.server.migrate import migrate
from safelight.cli.server.up import up
from safelight.cli.server.worker import worker
from safelight.cli.verify.command import verify
from safelight.cli.version import print_version

app = typer.Typer(
    name="safelight",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # they hold keys and prompts
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
app.command()(submit)
app.add_typer(jobs, name="jobs")
app.add_typer(lanes, name="lanes")
app.add_typer(workers, name="workers")
app.add_typer(canary, name="canary")
app.command()(status)
app.add_typer(webhooks, name="webhooks")
app.add_typer(quotas, name="quotas")
app.command()(costs)
app.add_typer(keys, name="keys")
app.command()(audit)
app.add_typer(grpc, name="grpc")
app.add_typer(outputs, name="outputs")
app.command()(migrate)
app.add_typer(reports, name="reports")
app.command()(doctor)
app.command()(verify)
