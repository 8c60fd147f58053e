"""What every job store does about webhooks.

``tests/contract`` puts it to each: ``test_endpoints.py``, ``test_outbox.py``, ``test_deliveries.py``.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from jobstore.audit import Actor
from jobstore.webhooks.model import (
    NOTHING_UNDER_WAY,
    Delivery,
    DeliveryFilter,
    DeliveryPage,
    Due,
    Endpoint,
    EndpointChanges,
    EndpointRecord,
    NewEndpoint,
    Outstanding,
    Tried,
    UnderWay,
)


class WebhookStore(Protocol):
    """Endpoints and deliveries. Deliveries of jobs are made by the transaction that writes the job's event.

    With ``by``, what is done and its audit entry are one transaction.
    """

    async def add_endpoint(self, new: NewEndpoint, most: int, by: Actor | None = None) -> Endpoint:
        """Keep an endpoint. Raises TooManyWebhooksError where its key has ``most`` already."""

    async def endpoints(self, key_id: UUID | None = None, *, all_keys: bool = False) -> tuple[Endpoint, ...]:
        """The endpoints of a key (None: those of jobs without one), or of all; oldest first."""

    async def endpoint(self, endpoint_id: UUID) -> Endpoint:
        """The endpoint. Raises WebhookNotFoundError."""

    async def endpoint_records(self) -> dict[UUID, EndpointRecord]:
        """How endpoints do, by the newest 10,000 deliveries; those that none of these is to are not in it."""

    async def change_endpoint(self, endpoint_id: UUID, changes: EndpointChanges, by: Actor | None = None) -> Endpoint:
        """Change it. Disabling gives its pending deliveries up, enabling forgets its failures.

        Changes that name nothing are none. Raises WebhookNotFoundError.
        """

    async def rotate_endpoint(self, endpoint_id: UUID, secret: str, keep_s: float, by: Actor | None = None) -> Endpoint:
        """Sign by a new secret; the old one signs too for ``keep_s`` seconds. Raises WebhookNotFoundError."""

    async def delete_endpoint(self, endpoint_id: UUID, by: Actor | None = None) -> None:
        """Forget it; its pending deliveries are given up. Raises WebhookNotFoundError."""

    async def test_endpoint(self, endpoint_id: UUID, by: Actor | None = None) -> Delivery:
        """Put a ``webhook.test`` into the outbox, if it is disabled too; with ``by`` it is in the audit log.

        Raises WebhookNotFoundError.
        """

    async def deliveries(self, where: DeliveryFilter) -> DeliveryPage:
        """Deliveries newest first. Raises ValueError on a cursor that no page gave."""

    async def delivery(self, delivery_id: UUID) -> Delivery:
        """The delivery. Raises WebhookNotFoundError."""

    async def delivery_body(self, delivery_id: UUID) -> str | None:
        """The body as it was sent; None before the first try. Raises WebhookNotFoundError."""

    async def count_deliveries(self, where: DeliveryFilter, most: int = 10_000) -> int:
        """How many deliveries ``redeliver_many`` would take up, counted up to ``most``."""

    async def redeliver_many(self, where: DeliveryFilter, limit: int, by: Actor | None = None) -> int:
        """Let up to ``limit`` of a filter's deliveries be tried at once, the oldest first; how many they are.

        What is pending already, or whose endpoint is disabled, is left out; the filter's limit and cursor don't count.
        """

    async def redeliver(self, delivery_id: UUID, by: Actor | None = None) -> Delivery:
        """Let it be tried at once, with a fresh schedule, under its old id; with ``by`` it is in the audit log.

        Raises WebhookNotFoundError, and WebhookDisabledError where its endpoint is disabled.
        """

    async def claim_deliveries(
        self, limit: int, lease_s: float, under_way: UnderWay = NOTHING_UNDER_WAY
    ) -> tuple[Due, ...]:
        """Take up to ``limit`` of what is due, a few an origin; counts the attempts.

        Keys take turns, those first that have the least under way, each within its bound.
        What is not settled within ``lease_s`` seconds is due again. Any number of processes may claim at once.
        """

    async def settle_delivery(self, due: Due, tried: Tried, disable_after_s: float) -> Endpoint | None:
        """Write what came of a try, unless another has taken it up since; the endpoint where that disabled it.

        An endpoint is disabled by ``gone``, and by a failure when it has had nothing but for ``disable_after_s``.
        """

    async def outstanding(self) -> Outstanding:
        """What is pending."""
