"""Money and device time: what attempts cost, as the store books it."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Literal
from uuid import UUID

from msgspec import Struct, field

from jobstore.job import CacheOutcome

Outcome = Literal["succeeded", "failed", "canceled", "handed_back", "lost"]


class Spent(Struct, frozen=True, kw_only=True):
    """The device time that an attempt took: the job's share of every batched step, in seconds, and on what device.

    ``batch_rows`` is how many pictures shared its steps on the average, its own among them; None where nobody can tell.
    """

    gpu_seconds: Decimal = Decimal(0)
    device: str = ""
    batch_rows: float | None = None


NOTHING_SPENT = Spent()
"""What an attempt took of which nothing is known."""


class Balance(Struct, frozen=True, kw_only=True):
    """What an API key's unfinished jobs hold reserved, and what its finished ones were charged, in one currency."""

    reserved: Decimal = Decimal(0)
    charged: Decimal = Decimal(0)


class UsageRow(Struct, frozen=True, kw_only=True):
    """One settled attempt. It outlives its job.

    ``token`` is the lease under which it was rendered: no two rows of a job have the same one. An answer from the cache
    at submit has none. ``price`` is what the job would have cost, or did: ``charged``. ``batch_rows`` is how many
    pictures shared the attempt's steps on the average; None where nobody could tell.
    """

    job_id: UUID
    attempt: int
    token: int | None
    key_id: UUID | None
    team: str | None
    customer: str | None
    lane: str
    model: str
    device: str
    worker_id: UUID | None
    outcome: Outcome
    error_code: str | None
    cache: CacheOutcome
    gpu_seconds: Decimal
    price: Decimal
    charged: Decimal
    currency: str
    dimensions: dict[str, str] = field(default_factory=dict)
    at: datetime
    batch_rows: float | None = None
