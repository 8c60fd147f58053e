"""From the store's webhooks to those of the wire."""

from __future__ import annotations

from api.webhook_schemas import DeliveryView, EndpointView, WebhookView
from jobstore.job import Job
from jobstore.webhooks.model import Delivery, Endpoint


def webhook_view(job: Job) -> WebhookView | None:
    """Whom a job tells, without its secret."""
    hook = job.webhook
    return None if hook is None else WebhookView(url=hook.url, events=hook.events, signed=hook.signed)


def endpoint_view(endpoint: Endpoint) -> EndpointView:
    """An endpoint as its key sees it."""
    return EndpointView(
        id=endpoint.id,
        key_id=endpoint.key_id,
        url=endpoint.url,
        events=endpoint.events,
        description=endpoint.description,
        disabled=endpoint.disabled_at is not None,
        reason=endpoint.reason,
        created_at=endpoint.created_at,
        disabled_at=endpoint.disabled_at,
        failing_since=endpoint.failing_since,
        previous_until=endpoint.previous_until,
    )


def delivery_view(delivery: Delivery) -> DeliveryView:
    """A delivery as its key sees it."""
    return DeliveryView(
        id=delivery.id,
        webhook_id=delivery.endpoint_id,
        job_id=delivery.job_id,
        type=delivery.type,
        state=delivery.state,
        attempts=delivery.attempts,
        status=delivery.status,
        error=delivery.error,
        created_at=delivery.created_at,
        tried_at=delivery.tried_at,
        next_at=delivery.next_at,
        delivered_at=delivery.delivered_at,
    )
