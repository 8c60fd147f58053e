"""``safelight workers``: how workers stand, and draining them."""

from __future__ import annotations

from typing import Annotated

import typer

from safelight.cli.consoles import err, out
from safelight.cli.exits import reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption

WorkerArgument = Annotated[str, typer.Argument(metavar="ID", help="The worker's id.")]


def ls(as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None) -> None:
    """List the workers: device, memory, models, what they hold, and how busy they are."""
    from safelight.cli.client import operators
    from safelight.cli.client.http import Client
    from safelight.cli.client.operator_look import workers_table

    with reported(), Client(url, key) as client:
        found = operators.workers(client)
    if as_json:
        out().print_json(data={"object": "list", "data": found})
    elif found:
        out().print(workers_table(found))
    else:
        err().print("No workers. Start one:  safelight worker")


def drain(
    worker: WorkerArgument, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None
) -> None:
    """Let a worker claim no more and finish what it holds; then it ends, or stays idle where it was started so."""
    from safelight.cli.client import operators
    from safelight.cli.client.http import Client

    with reported(), Client(url, key) as client:
        found = operators.drain(client, worker)
    if as_json:
        out().print_json(data=found)
        return
    out().print(found["state"])
    err().print(f"{found['held']} held; undo it:  safelight workers resume {worker}", markup=False, soft_wrap=True)


def resume(
    worker: WorkerArgument, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None
) -> None:
    """Let a draining worker claim jobs again."""
    from safelight.cli.client import operators
    from safelight.cli.client.http import Client

    with reported(), Client(url, key) as client:
        found = operators.resume(client, worker)
    if as_json:
        out().print_json(data=found)
    else:
        out().print(found["state"])


workers = typer.Typer(help="List, drain and resume workers.", no_args_is_help=True)
for command in (ls, drain, resume):
    workers.command()(command)
