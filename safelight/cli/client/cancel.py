"""``safelight jobs cancel``: stop a job."""

from __future__ import annotations

from safelight.cli.client.show import JobArgument
from safelight.cli.consoles import err, out
from safelight.cli.exits import reported
from safelight.cli.options import DEFAULT_URL, JsonOption, KeyOption, UrlOption


def cancel(
    job_id: JobArgument, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL, key: KeyOption = None
) -> None:
    """Cancel a job. A running one stops at its next denoising step; asking again changes nothing."""
    from safelight.cli.client.http import Client

    with reported(), Client(url, key) as client:
        job = client.cancel(job_id)
    if as_json:
        out().print_json(data=job)
        return
    out().print(job["state"])
    if job["state"] == "running":
        err().print("It stops at its next step.")
