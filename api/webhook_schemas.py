"""What goes over the wire about webhooks. docs/webhooks.md explains the fields."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from jobstore.webhooks.model import DeliveryState, EventType

Url = Annotated[str, Meta(min_length=1, max_length=2048)]
JobEventType = Literal[
    "job.scheduled", "job.queued", "job.started", "job.succeeded", "job.failed", "job.canceled", "job.dead"
]
EventTypes = Annotated[tuple[JobEventType, ...], Meta(min_length=1, max_length=20)]
_ENDINGS: EventTypes = ("job.succeeded", "job.failed", "job.canceled", "job.dead")
Description = Annotated[str, Meta(max_length=500)]


class WebhookRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom to tell of one job, and of what; the job's end where ``events`` names nothing.

    ``secret`` signs the messages: ``whsec_`` and the base64 of 24 to 64 random bytes. Without one they are not signed.
    """

    url: Url
    events: EventTypes = _ENDINGS
    secret: Annotated[str, Meta(max_length=100)] | None = None


class WebhookView(Struct, frozen=True, kw_only=True):
    """Whom a job tells, and of what; ``signed`` says whether by a secret."""

    url: str
    events: tuple[str, ...]
    signed: bool


class EndpointRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An address to be told of all jobs of the key that asks: of their ends, where ``events`` names nothing."""

    url: Url
    events: EventTypes = _ENDINGS
    description: Description = ""


class EndpointPatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What changes in an endpoint; what is left out stays. A ``disabled`` one gets nothing."""

    url: Url | UnsetType = UNSET
    events: EventTypes | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET


class EndpointView(Struct, frozen=True, kw_only=True):
    """An endpoint. ``key_id`` is the API key whose jobs it hears of, null for jobs without one.

    ``previous_until``: until then the secret from before the last rotation signs, too. ``failing_since`` is the first
    failure since the last success; ``reason`` says why it is disabled.
    """

    id: UUID
    object: Literal["webhook"] = "webhook"
    key_id: UUID | None
    url: str
    events: tuple[str, ...]
    description: str
    disabled: bool
    reason: str
    created_at: datetime
    disabled_at: datetime | None
    failing_since: datetime | None
    previous_until: datetime | None


class EndpointMade(EndpointView, frozen=True, kw_only=True):
    """An endpoint with its secret, which is shown this once."""

    secret: str


class EndpointList(Struct, frozen=True, kw_only=True):
    """Endpoints, oldest first."""

    object: Literal["list"] = "list"
    data: tuple[EndpointView, ...]


class DeliveryView(Struct, frozen=True, kw_only=True):
    """A message to one receiver; ``id`` is its ``webhook-id``. ``webhook_id`` is null where the job names the address.

    ``next_at`` is when it is tried next; ``status`` and ``error`` are what came of the last try.
    """

    id: UUID
    object: Literal["delivery"] = "delivery"
    webhook_id: UUID | None
    job_id: UUID | None
    type: str
    state: DeliveryState
    attempts: int
    status: int | None
    error: str | None
    created_at: datetime
    tried_at: datetime | None
    next_at: datetime | None
    delivered_at: datetime | None


class RedeliverRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which failed deliveries to try anew, the oldest first, 1000 a call: those for which everything named holds.

    ``dry_run`` counts and changes nothing; with ``expected``, nothing is changed where they are more.
    """

    type: EventType | None = None
    job_id: UUID | None = None
    webhook_id: UUID | None = None
    dry_run: bool = False
    expected: Annotated[int, Meta(ge=0, le=1000)] | None = None


class Redelivered(Struct, frozen=True, kw_only=True):
    """How many deliveries are tried anew, or would be; ``more`` says that there may be others, beyond 1000."""

    object: Literal["webhooks.redelivered"] = "webhooks.redelivered"
    dry_run: bool
    count: int
    more: bool


class DeliveryList(Struct, frozen=True, kw_only=True):
    """Deliveries, newest first. ``next_cursor`` asks for the next page; null on the last."""

    object: Literal["list"] = "list"
    data: tuple[DeliveryView, ...]
    next_cursor: str | None
