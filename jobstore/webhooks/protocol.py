"""What every job store does about webhooks.

``tests/contract`` puts it to each: ``test_endpoints.py``, ``test_outbox.py``, ``test_deliveries.py``.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from jobstore.webhooks.model import (
    NOTHING_UNDER_WAY,
    Delivery,
    DeliveryFilter,
    DeliveryPage,
    Due,
    Endpoint,
    EndpointChanges,
    NewEndpoint,
    Outstanding,
    Tried,
    UnderWay,
)


class WebhookStore(Protocol):
    """Endpoints and deliveries. Deliveries of jobs are made by the transaction that writes the job's event."""

    async def add_endpoint(self, new: NewEndpoint, most: int) -> Endpoint:
        """Keep an endpoint. Raises TooManyWebhooksError where its key has ``most`` already."""

    async def endpoints(self, key_id: UUID | None = None, *, all_keys: bool = False) -> tuple[Endpoint, ...]:
        """The endpoints of a key (None: those of jobs without one), or of all; oldest first."""

    async def endpoint(self, endpoint_id: UUID) -> Endpoint:
        """The endpoint. Raises WebhookNotFoundError."""

    async def change_endpoint(self, endpoint_id: UUID, changes: EndpointChanges) -> Endpoint:
        """Change it. Disabling gives its pending deliveries up, enabling forgets its failures.

        Raises WebhookNotFoundError.
        """

    async def rotate_endpoint(self, endpoint_id: UUID, secret: str, keep_s: float) -> Endpoint:
        """Sign by a new secret; the old one signs too for ``keep_s`` seconds. Raises WebhookNotFoundError."""

    async def delete_endpoint(self, endpoint_id: UUID) -> None:
        """Forget it; its pending deliveries are given up. Raises WebhookNotFoundError."""

    async def test_endpoint(self, endpoint_id: UUID) -> Delivery:
        """Put a ``webhook.test`` into the outbox, if it is disabled too. Raises WebhookNotFoundError."""

    async def deliveries(self, where: DeliveryFilter) -> DeliveryPage:
        """Deliveries newest first. Raises ValueError on a cursor that no page gave."""

    async def delivery(self, delivery_id: UUID) -> Delivery:
        """The delivery. Raises WebhookNotFoundError."""

    async def redeliver(self, delivery_id: UUID) -> Delivery:
        """Let it be tried at once, with a fresh schedule, under its old id.

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
