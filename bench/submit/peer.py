"""What people build today: FastAPI hands the request to Celery, which puts it into Redis.

``PEER_REDIS`` names the Redis. No keys, no budgets, no idempotency, and what was accepted lives in Redis's memory.
"""

from __future__ import annotations

import os
from typing import Annotated
from uuid import uuid4

from celery import Celery
from fastapi import FastAPI
from pydantic import BaseModel, Field

celery = Celery("peer", broker=os.environ.get("PEER_REDIS", "redis://127.0.0.1:6379/9"))
celery.conf.task_ignore_result = True
app = FastAPI()


class Submit(BaseModel):
    """A request for pictures."""

    prompt: Annotated[str, Field(min_length=1, max_length=32_000)]
    model: str = "scenes"
    size: Annotated[str, Field(pattern=r"^[1-9][0-9]*x[1-9][0-9]*$")] = "128x128"
    n: Annotated[int, Field(ge=1, le=10)] = 1
    steps: Annotated[int, Field(ge=1, le=150)] = 8


@celery.task(name="render")  # type: ignore[untyped-decorator]
def render(job_id: str, request: dict[str, object]) -> None:
    """Nobody runs it here."""


@app.post("/jobs", status_code=202)
def submit(request: Submit) -> dict[str, str]:
    """Hand in a prompt and get a ticket."""
    job_id = str(uuid4())
    render.apply_async((job_id, request.model_dump()), task_id=job_id)
    return {"id": job_id, "state": "queued"}
