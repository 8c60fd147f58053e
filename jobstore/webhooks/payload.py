"""The body of a message: what happened, when, and to which job. Links instead of pictures."""

from __future__ import annotations

from typing import Any

import msgspec

from jobstore.job import Job, JobState
from jobstore.webhooks.model import Due

LIMIT = 20_000
"""Bytes that a body has at most."""

_WARNINGS = 10
_WARNING = 500
_DROPPED = ("warnings", "dimensions")


def payload_of(due: Due, base_url: str = "") -> str:
    """The body of a delivery as JSON, within LIMIT. Links begin with ``base_url``, or are paths on the server."""
    data: dict[str, Any] = (
        {"endpoint_id": str(due.endpoint_id)} if due.job is None else _job(due, due.job, base_url.rstrip("/"))
    )
    message: dict[str, Any] = {"type": due.type, "timestamp": due.created_at, "data": data}
    for name in _DROPPED:
        if len(body := _encoded(message)) <= LIMIT:
            return body
        data[name] = None
        data["truncated"] = True
    return _encoded(message)


def _job(due: Due, job: Job, base_url: str) -> dict[str, Any]:
    """What is told of a job: as its event has it, and what never changes."""
    state = JobState(due.event["state"])
    path = f"{base_url}/v1/jobs/{job.id}"
    return {
        "id": job.id,
        "object": "job",
        "state": state,
        "url": path,
        "model": job.request.model,
        "cache": job.cache,
        "attempt": due.event.get("attempt", job.attempts),
        "error": due.event.get("error"),
        "reason": due.event.get("reason"),
        "images": _images(job, path) if state is JobState.SUCCEEDED else [],
        "cost": {
            "currency": job.currency,
            "charged": format(job.charged, "f"),
            "gpu_seconds": format(job.gpu_seconds, "f"),
        }
        if state.terminal
        else None,
        "warnings": [warning[:_WARNING] for warning in job.warnings[:_WARNINGS]],
        "dimensions": job.dimensions,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at if state.terminal else None,
    }


def _images(job: Job, path: str) -> list[dict[str, Any]]:
    return [
        {
            "index": picture.index,
            "url": f"{path}/images/{picture.index}",
            "seed": picture.seed,
            "width": picture.width,
            "height": picture.height,
            "sha256": picture.sha256,
        }
        for picture in job.pictures
    ]


def _encoded(message: dict[str, Any]) -> str:
    return msgspec.json.encode(message).decode()
