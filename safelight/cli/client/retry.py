"""``safelight jobs retry``: queue a failed job anew."""

from __future__ import annotations

from safelight.cli.client.show import JobArgument
from safelight.cli.consoles import out
from safelight.cli.exits import reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption


def retry(
    job_id: JobArgument, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None
) -> None:
    """Queue a failed or dead job anew, with fresh attempts."""
    from safelight.cli.client.http import Client

    with reported(), Client(url, key) as client:
        job = client.retry(job_id)
    if as_json:
        out().print_json(data=job)
    else:
        out().print(job["state"])
