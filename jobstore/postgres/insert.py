"""The statement that accepts jobs: their rows, with their places in their lanes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from psycopg.types.json import Jsonb

from jobstore.job import CacheOutcome, JobRequest, NewJob
from jobstore.rules.fairness import EXPECTED_LIMITS_S, USUAL_STEP_S
from jobstore.rules.rows import NOBODY


def _expected(image_steps: str, pixels: str, model: str) -> str:
    """Another size of the same model tells the pace by the number of pixels."""
    return f"""
SELECT least(greatest({image_steps} * coalesce((
    SELECT step_s * {pixels}::float8 / (width::float8 * height) FROM pace WHERE pace.model = {model}
    ORDER BY abs(width::float8 * height - {pixels}::float8), seen_at DESC LIMIT 1
), {USUAL_STEP_S}), {EXPECTED_LIMITS_S[0]}), {EXPECTED_LIMITS_S[1]}) AS expected_s
"""


EXPECTED = _expected("%(image_steps)s::float8", "%(pixels)s", "%(model)s")
"""Seconds of device time that a request is expected to take; its arguments are ``pace_of`` the request."""


def _start_tag(lane: str, key_id: str) -> str:
    return f"""
SELECT greatest(coalesce((SELECT virtual_s FROM lane WHERE name = {lane}), 0), (
    SELECT start_tag + share_s FROM job
    WHERE leader_id IS NULL AND (state = 'queued' OR started_at IS NOT NULL) AND lane = {lane}
      AND coalesce(key_id, '{NOBODY}'::uuid) = coalesce({key_id}::uuid, '{NOBODY}'::uuid)
    ORDER BY start_tag DESC LIMIT 1
)) AS start_tag
"""


START_TAG = _start_tag("%(lane)s", "%(key_id)s")
"""The end of what a key has in a lane, or the lane's clock."""

# What is written as it comes, by column.
_GIVEN = {
    "id": "uuid", "lane": "text", "model": "text", "batch_key": "text", "request": "jsonb", "format": "text",
    "fingerprint": "text", "seedless_fingerprint": "text", "joinable": "boolean", "cache": "text", "leader_id": "uuid",
    "key_id": "uuid", "team": "text", "customer": "text", "dimensions": "jsonb", "currency": "text", "price": "numeric",
    "reserved": "numeric", "rate": "numeric", "ceiling": "numeric", "quotas": "jsonb", "fallbacks": "jsonb",
    "max_attempts": "integer", "start_at": "timestamptz", "warnings": "jsonb", "traceparent": "text",
    "webhook": "jsonb",
}  # fmt: skip
# What columns are worked out of.
_ASKED = {
    "state": "text", "offset_s": "float8", "weight": "float8", "image_steps": "float8", "pixels": "float8",
    "deadline_s": "float8", "start_deadline_s": "float8",
}  # fmt: skip
_RECORD = ", ".join(f"{name} {kind}" for name, kind in (_GIVEN | _ASKED).items())

INSERT_JOBS = f"""
WITH asked AS MATERIALIZED (
    SELECT row_number() OVER () AS turn, clock_timestamp() AS now, job.*
    FROM jsonb_to_recordset(%(jobs)s) AS job ({_RECORD})
),
-- Once for all that want the same, and kept from being written into each place that names it.
paces AS MATERIALIZED (
    SELECT wanted.*, found.expected_s
    FROM (SELECT DISTINCT model, pixels, image_steps FROM asked) AS wanted
    CROSS JOIN LATERAL ({_expected("wanted.image_steps", "wanted.pixels", "wanted.model")}) AS found
),
expected AS (
    SELECT asked.*, paces.expected_s, CASE WHEN state = 'succeeded' THEN 0 ELSE paces.expected_s / weight END AS share_s
    FROM asked JOIN paces USING (model, pixels, image_steps)
),
tenants AS MATERIALIZED (
    SELECT tenant.*, found.start_tag
    FROM (SELECT DISTINCT lane, key_id FROM asked) AS tenant
    CROSS JOIN LATERAL ({_start_tag("tenant.lane", "tenant.key_id")}) AS found
),
-- What joins a render in flight, or starts later, moves no other job back.
moving AS (
    SELECT expected.*, CASE
        WHEN start_at > now OR leader_id IS NOT NULL THEN 0
        WHEN NOT joinable THEN share_s
        WHEN row_number() OVER (PARTITION BY fingerprint, joinable ORDER BY turn) > 1 THEN 0
        -- Not EXISTS, for which all that is in flight may be read and hashed.
        WHEN (
            SELECT true FROM job WHERE job.fingerprint = expected.fingerprint
            AND job.joinable AND job.leader_id IS NULL AND job.state IN ('scheduled', 'queued', 'running') LIMIT 1
        ) THEN 0
        ELSE share_s
    END AS moves_s
    FROM expected
),
placed AS (
    SELECT moving.*, tenants.start_tag + coalesce(sum(moves_s) OVER (
        PARTITION BY moving.lane, moving.key_id ORDER BY turn ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), 0) AS start_tag
    FROM moving JOIN tenants ON tenants.lane = moving.lane AND tenants.key_id IS NOT DISTINCT FROM moving.key_id
)
INSERT INTO job (
    {", ".join(_GIVEN)},
    state, rank_at, start_tag, share_s, expected_s, attempts_allowed, start_by, created_at, started_at, finished_at,
    deadline_at
)
SELECT
    {", ".join(_GIVEN)},
    CASE WHEN state = 'queued' AND start_at > now THEN 'scheduled' ELSE state END,
    start_tag + offset_s, start_tag, share_s, expected_s, max_attempts,
    now + make_interval(secs => start_deadline_s), now,
    CASE WHEN state IN ('running', 'succeeded') THEN now END, CASE WHEN state = 'succeeded' THEN now END,
    now + make_interval(secs => deadline_s)
FROM placed ORDER BY fingerprint, turn
ON CONFLICT (fingerprint) WHERE joinable AND leader_id IS NULL AND state IN ('scheduled', 'queued', 'running')
DO NOTHING
RETURNING *
"""
"""Inserts jobs, each of a key behind the one before; of those that are in flight already, none.

In the order of their fingerprints: two transactions that want the same ones then wait for each other, not in a circle.
"""


def pace_of(request: JobRequest) -> dict[str, Any]:
    """The arguments of ``EXPECTED``."""
    return {
        "image_steps": request.steps * request.n,
        "pixels": request.width * request.height,
        "model": request.model,
    }


def arguments_of(jobs: Iterable[tuple[NewJob, Mapping[str, Any]]]) -> dict[str, Any]:
    """The arguments of ``INSERT_JOBS``; the columns beside a job stand over what one that waits by itself has."""
    records = [_record(new) | dict(columns) for new, columns in jobs]
    return {"jobs": Jsonb(records, dumps=msgspec.json.encode)}


def _record(new: NewJob) -> dict[str, Any]:
    request = new.request
    return {
        "state": "queued", "cache": CacheOutcome.MISS, "leader_id": None, "joinable": False, "reserved": 0,
        "id": new.id, "lane": new.lane, "model": request.model, "batch_key": new.batch_key,
        "offset_s": (5 - request.priority) * new.priority_quantum_s, "weight": new.weight,
        "image_steps": request.steps * request.n, "pixels": request.width * request.height,
        "request": request, "format": request.format,
        "fingerprint": new.fingerprint, "seedless_fingerprint": new.seedless_fingerprint, "key_id": new.key_id,
        "dimensions": new.dimensions, "currency": new.currency, "price": new.price,
        "max_attempts": new.max_attempts, "start_at": request.start_at, "deadline_s": request.deadline_s,
        "start_deadline_s": request.start_deadline_s, "team": new.team, "customer": new.customer, "quotas": (),
        "ceiling": new.ceiling, "rate": new.rate, "fallbacks": new.fallbacks, "traceparent": new.traceparent,
        "warnings": new.warnings, "webhook": new.stored_webhook,
    }  # fmt: skip
