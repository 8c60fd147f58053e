"""The statement that accepts a job: its row, with its place in its lane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from jobstore.job import CacheOutcome, JobRequest, NewJob
from jobstore.postgres.columns import adapted
from jobstore.rules.fairness import EXPECTED_LIMITS_S, USUAL_STEP_S
from jobstore.rules.rows import NOBODY

# Another size of the same model tells the pace by the number of pixels.
EXPECTED = """
SELECT least(greatest(%(image_steps)s * coalesce((
    SELECT step_s * %(pixels)s::float8 / (width::float8 * height) FROM pace WHERE model = %(model)s
    ORDER BY abs(width::float8 * height - %(pixels)s::float8), seen_at DESC LIMIT 1
), %(usual_step_s)s::float8), %(least_s)s), %(most_s)s) AS expected_s
"""
"""Seconds of device time that a request is expected to take; its arguments are ``pace_of`` the request."""
_TAIL = f"""
SELECT start_tag + share_s FROM job
WHERE leader_id IS NULL AND (state = 'queued' OR started_at IS NOT NULL) AND lane = %(lane)s
  AND coalesce(key_id, '{NOBODY}'::uuid) = coalesce(%(key_id)s::uuid, '{NOBODY}'::uuid)
ORDER BY start_tag DESC LIMIT 1
"""
_VIRTUAL = "SELECT virtual_s FROM lane WHERE name = %(lane)s"
START_TAG = f"SELECT greatest(coalesce(({_VIRTUAL}), 0), ({_TAIL})) AS start_tag"
"""The end of what a key has in a lane, or the lane's clock."""

INSERT_JOB = f"""
INSERT INTO job (
    id, state, lane, model, batch_key, rank_at, start_tag, share_s, expected_s, request, format, fingerprint,
    seedless_fingerprint, joinable, cache, leader_id, key_id, dimensions, currency, price, reserved, max_attempts,
    attempts_allowed, start_at, start_by, created_at, started_at, finished_at, deadline_at, team, customer, quotas,
    ceiling, rate, fallbacks, traceparent, warnings
)
SELECT
    %(id)s, CASE WHEN %(state)s = 'queued' AND %(start_at)s::timestamptz > c.now THEN 'scheduled' ELSE %(state)s END,
    %(lane)s, %(model)s, %(batch_key)s, p.start_tag + %(offset_s)s, p.start_tag,
    CASE WHEN %(state)s = 'succeeded' THEN 0 ELSE e.expected_s / %(weight)s END, e.expected_s,
    %(request)s, %(format)s, %(fingerprint)s, %(seedless_fingerprint)s, %(joinable)s, %(cache)s,
    %(leader_id)s, %(key_id)s, %(dimensions)s, %(currency)s, %(price)s, %(reserved)s, %(max_attempts)s,
    %(max_attempts)s, %(start_at)s, c.now + make_interval(secs => %(start_deadline_s)s), c.now,
    CASE WHEN %(state)s IN ('running', 'succeeded') THEN c.now END, CASE WHEN %(state)s = 'succeeded' THEN c.now END,
    c.now + make_interval(secs => %(deadline_s)s), %(team)s, %(customer)s, %(quotas)s, %(ceiling)s, %(rate)s,
    %(fallbacks)s, %(traceparent)s, %(warnings)s
FROM (SELECT clock_timestamp() AS now) AS c, ({EXPECTED}) AS e,
     ({START_TAG}) AS p
ON CONFLICT (fingerprint) WHERE joinable AND leader_id IS NULL AND state IN ('scheduled', 'queued', 'running')
DO NOTHING
RETURNING *
"""


def pace_of(request: JobRequest) -> dict[str, Any]:
    """The arguments of ``EXPECTED``."""
    least_s, most_s = EXPECTED_LIMITS_S
    return {
        "image_steps": float(request.steps * request.n), "pixels": request.width * request.height,
        "model": request.model, "usual_step_s": USUAL_STEP_S, "least_s": least_s, "most_s": most_s,
    }  # fmt: skip


def arguments_of(new: NewJob, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``INSERT_JOB``; ``columns`` stands over what a job that waits by itself has."""
    request = new.request
    return adapted(
        {
            "state": "queued", "cache": CacheOutcome.MISS, "leader_id": None, "joinable": False, "reserved": 0,
            "id": new.id, "lane": new.lane, "model": request.model, "batch_key": new.batch_key,
            "offset_s": float((5 - request.priority) * new.priority_quantum_s), "weight": new.weight,
            **pace_of(request),
            "request": msgspec.to_builtins(request), "format": request.format,
            "fingerprint": new.fingerprint, "seedless_fingerprint": new.seedless_fingerprint, "key_id": new.key_id,
            "dimensions": new.dimensions, "currency": new.currency, "price": new.price,
            "max_attempts": new.max_attempts, "start_at": request.start_at, "deadline_s": request.deadline_s,
            "start_deadline_s": request.start_deadline_s, "team": new.team, "customer": new.customer, "quotas": [],
            "ceiling": new.ceiling, "rate": new.rate, "fallbacks": msgspec.to_builtins(new.fallbacks),
            "traceparent": new.traceparent, "warnings": list(new.warnings),
            **columns,
        }
    )  # fmt: skip
