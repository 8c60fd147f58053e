"""What a webhook is: endpoints of API keys, and deliveries to them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from msgspec import Struct

from jobstore.job import Job


class EventType(StrEnum):
    """What a message tells: that a job came into a state, or nothing but that messages arrive (``webhook.test``)."""

    SCHEDULED = "job.scheduled"
    QUEUED = "job.queued"
    STARTED = "job.started"
    SUCCEEDED = "job.succeeded"
    FAILED = "job.failed"
    CANCELED = "job.canceled"
    DEAD = "job.dead"
    TEST = "webhook.test"


JOB_EVENTS = tuple(event for event in EventType if event is not EventType.TEST)
"""Those that can be subscribed to."""

ENDINGS = (EventType.SUCCEEDED, EventType.FAILED, EventType.CANCELED, EventType.DEAD)
"""Those that a hook gets that names none."""


class DeliveryState(StrEnum):
    """A delivery waits for a try (or is being tried), was answered with 2xx, or was given up."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class NewEndpoint(Struct, frozen=True, kw_only=True):
    """An endpoint to be kept. ``origin`` is its URL's scheme, host and port."""

    key_id: UUID | None
    url: str
    origin: str
    secret: str
    events: tuple[str, ...] = ENDINGS
    description: str = ""


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where messages about the jobs of a key go. Its secret is not in here: only deliveries bring it along.

    ``previous_until`` is how long the secret from before the last rotation signs too. ``failing_since`` is the first
    failure since the last success. A disabled one gets nothing; ``reason`` says why it was.
    """

    id: UUID
    key_id: UUID | None
    url: str
    events: tuple[str, ...]
    description: str
    created_at: datetime
    previous_until: datetime | None = None
    failing_since: datetime | None = None
    disabled_at: datetime | None = None
    reason: str = ""


class EndpointChanges(Struct, frozen=True, kw_only=True):
    """What of an endpoint is to be changed; None leaves it as it is."""

    url: str | None = None
    origin: str | None = None
    events: tuple[str, ...] | None = None
    description: str | None = None
    disabled: bool | None = None


class EndpointRecord(Struct, frozen=True, kw_only=True):
    """How an endpoint does, as far as its deliveries are kept: its last success, and how many messages it has failed
    to take since."""

    delivered_at: datetime | None
    failures: int


class Delivery(Struct, frozen=True, kw_only=True):
    """One message to one receiver. ``id`` is its ``webhook-id``, the same in every try.

    ``endpoint_id`` is None where it goes to the address that the job names. ``next_at`` is when it is tried next, and
    ``status`` and ``error`` are what came of the last try.
    """

    id: UUID
    endpoint_id: UUID | None
    job_id: UUID | None
    key_id: UUID | None
    type: str
    state: DeliveryState
    attempts: int
    next_at: datetime | None
    status: int | None
    error: str | None
    created_at: datetime
    tried_at: datetime | None
    delivered_at: datetime | None


class DeliveryFilter(Struct, frozen=True, kw_only=True):
    """Which deliveries to list: those for which everything that is named holds.

    ``key_id`` counts unless ``all_keys``: None are those of jobs without a key. ``cursor`` is what a page gave.
    """

    key_id: UUID | None = None
    all_keys: bool = False
    state: DeliveryState | None = None
    type: EventType | None = None
    job_id: UUID | None = None
    endpoint_id: UUID | None = None
    limit: int = 50
    cursor: str | None = None


class DeliveryPage(Struct, frozen=True, kw_only=True):
    """Deliveries, newest first, and the cursor of the next page (None on the last)."""

    deliveries: tuple[Delivery, ...]
    next_cursor: str | None = None


class Due(Struct, frozen=True, kw_only=True):
    """A delivery that this process has to try now. Holds secrets: never to be logged.

    ``attempt`` fences what is written of it. ``tries`` counts this one, from 1, since it was last asked for.
    ``payload`` is the body of an earlier try; without one it is made of ``event`` and ``job``. ``url`` is None where
    the receiver is gone. ``secrets`` are those that sign, the newest first.
    """

    id: UUID
    endpoint_id: UUID | None
    job_id: UUID | None
    key_id: UUID | None
    origin: str
    type: str
    event: dict[str, Any]
    created_at: datetime
    attempt: int
    tries: int
    url: str | None
    secrets: tuple[str, ...]
    payload: str | None
    job: Job | None


class UnderWay(Struct, frozen=True, kw_only=True):
    """What a process is trying already, so that a claim shares its slots out fairly.

    ``origins`` are those that get no more for now. ``keys`` is how many tries of each key are under way (those of None
    are of jobs without one), and ``per_key`` how many there may be.
    """

    origins: tuple[str, ...] = ()
    keys: dict[UUID | None, int] = {}
    per_key: int = 1_000_000


NOTHING_UNDER_WAY = UnderWay()
"""Of a process that has just begun."""


class Tried(Struct, frozen=True, kw_only=True):
    """What came of a try. ``retry_in_s`` is when to try again, in seconds; None gives up.

    ``gone`` disables the endpoint: its receiver answered 410. One that isn't ``counted`` never came to the receiver:
    it is no try of the schedule, and no failure of the endpoint.
    """

    delivered: bool
    payload: str | None = None
    status: int | None = None
    error: str | None = None
    retry_in_s: float | None = None
    gone: bool = False
    counted: bool = True


class Outstanding(Struct, frozen=True, kw_only=True):
    """How many deliveries are pending, and how many seconds the oldest of them has been."""

    pending: int = 0
    oldest_s: float = 0.0
