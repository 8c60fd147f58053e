"""Constants of the order in which a lane's jobs are claimed. docs/fairness.md derives them."""

from __future__ import annotations

from jobstore.job import JobRequest

MATES_BOUND_S = 30.0
"""A batch mate may jump the line over jobs that stand at most so many virtual seconds before it."""

ADVANCE_BOUND_S = 540.0
"""A lane's clock runs at most so far ahead of what is served: the whole span of priorities at their usual quantum."""


USUAL_STEP_S = 0.1
"""Seconds of device time that a step of one image is expected to take before any was measured."""

EXPECTED_LIMITS_S = (0.001, 3600.0)


def advanced(virtual_s: float, start_tag: float, share_s: float, tenants: int) -> float:
    """The lane's virtual time after a job with that tag and share was claimed."""
    ahead = max(virtual_s, start_tag) + share_s / (2 * tenants + 1)
    return max(virtual_s, start_tag, min(ahead, start_tag + ADVANCE_BOUND_S))


def expected_s(request: JobRequest, step_s: float | None) -> float:
    """Seconds of device time that a request is expected to take at a pace of ``step_s`` a step and image."""
    least, most = EXPECTED_LIMITS_S
    return min(max(request.steps * request.n * (USUAL_STEP_S if step_s is None else step_s), least), most)
