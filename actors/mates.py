"""Which batch key a claim should prefer: one that the engine is stepping and has room for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from jobstore.job import Job
from safelight.config import Settings


def preferred(held: Iterable[Job], lane: str, settings: Settings) -> str | None:
    """The batch key of the lane with the most pictures held, of those whose batch has room for more; None without one.

    What fills a batch is worth more than what opens another; the store bounds how far a mate may jump the line.
    """
    limits: dict[str, int] = {}
    rows: Counter[str] = Counter()
    for job in held:
        if job.lane == lane:
            model = settings.models.get(job.request.model)
            if model is not None and model.provider is not None:
                continue  # it shares no steps
            rows[job.batch_key] += job.request.n
            limits[job.batch_key] = (model and model.max_batch) or settings.engine.max_batch
    return next((key for key, count in rows.most_common() if count < limits[key]), None)
