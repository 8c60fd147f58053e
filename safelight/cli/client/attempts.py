"""``safelight jobs attempts``: each try to render a job."""

from __future__ import annotations

from safelight.cli.client.show import JobArgument
from safelight.cli.consoles import err, out
from safelight.cli.exits import reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption


def attempts(
    job_id: JobArgument, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None
) -> None:
    """Show each try to render a job: where, how long, what came of it, and how full its batches were."""
    from safelight.cli.client import operators
    from safelight.cli.client.http import Client
    from safelight.cli.client.operator_look import attempts_table

    with reported(), Client(url, key) as client:
        found = operators.attempts(client, job_id)
    if as_json:
        out().print_json(data={"object": "list", "data": found})
    elif found:
        out().print(attempts_table(found))
    else:
        err().print("No attempt yet.")
