"""Operators' routes."""

from __future__ import annotations

from litestar.types import ControllerRouterHandler

from api.operating.attempts import list_attempts
from api.operating.jobs import count_jobs, list_jobs
from api.operating.many import cancel_jobs, redrive_jobs
from api.operating.overview import read_overview
from api.operating.scaling import list_scaling, read_scaling
from api.operating.workers import drain_worker, list_workers, read_worker, resume_worker

OPERATING_ROUTES: tuple[ControllerRouterHandler, ...] = (
    list_jobs,
    count_jobs,
    cancel_jobs,
    redrive_jobs,
    list_attempts,
    list_workers,
    read_worker,
    drain_worker,
    resume_worker,
    read_overview,
    list_scaling,
    read_scaling,
)
