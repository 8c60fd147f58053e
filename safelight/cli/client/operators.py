"""What operators ask of the API."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from safelight.cli.client.http import Client, job_path
from safelight.cli.exits import RefusedError

Found = dict[str, Any]


def count_jobs(client: Client, query: dict[str, Any]) -> Found:
    """How many jobs a filter names: ``count``, ``at_least`` so many."""
    return client.ask("GET", "/v1/jobs/count", expect=("count", "at_least"), params=query)


def reach_jobs(client: Client, path: str, fields: dict[str, Any]) -> Found:
    """Act on what a filter names, or count it: ``count``, ``job_ids``, ``next_cursor``."""
    return client.ask("POST", path, expect=("count", "job_ids", "next_cursor", "at_least", "as_of"), json=fields)


def attempts(client: Client, job_id: str) -> list[Found]:
    """A job's attempts."""
    found: list[Found] = client.ask("GET", job_path(job_id) + "/attempts", expect=("data",))["data"]
    return found


def workers(client: Client) -> list[Found]:
    """All workers."""
    found: list[Found] = client.ask("GET", "/v1/workers", expect=("data",))["data"]
    return found


def drain(client: Client, worker_id: str) -> Found:
    """Ask a worker to drain; how it stands."""
    return client.ask("POST", _worker_path(worker_id) + "/drain", expect=("id", "state"))


def resume(client: Client, worker_id: str) -> Found:
    """Let a worker claim again; how it stands."""
    return client.ask("POST", _worker_path(worker_id) + "/resume", expect=("id", "state"))


def overview(client: Client, zone: str) -> Found:
    """How everything stands."""
    return client.ask("GET", "/v1/overview", expect=("lanes", "hour", "devices", "problems"), params={"zone": zone})


def _worker_path(worker_id: str) -> str:
    if worker_id in ("", ".", "..") or not worker_id.isascii():
        raise RefusedError(f"{worker_id!a} is not the id of a worker", "find it with  safelight workers ls")
    return f"/v1/workers/{quote(worker_id, safe='')}"
