"""From the store's webhooks to those of the wire."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from api.webhook_schemas import DeliveryView, EndpointView, WebhookView
from jobstore.job import Job
from jobstore.webhooks.model import Delivery, Endpoint


def webhook_view(job: Job, *, with_path: bool = True) -> WebhookView | None:
    """Whom a job tells, without its secret; without ``with_path`` no more than the host."""
    hook = job.webhook
    if hook is None:
        return None
    url = hook.url if with_path else shown_address(hook.url, with_path=False)
    return WebhookView(url=url, events=hook.events, signed=hook.signed)


def endpoint_view(endpoint: Endpoint, *, with_path: bool = True) -> EndpointView:
    """An endpoint as its key sees it; without ``with_path`` as who only observes does: no more than the host."""
    return EndpointView(
        id=endpoint.id,
        key_id=endpoint.key_id,
        url=endpoint.url if with_path else shown_address(endpoint.url, with_path=False),
        events=endpoint.events,
        description=endpoint.description,
        disabled=endpoint.disabled_at is not None,
        reason=endpoint.reason,
        created_at=endpoint.created_at,
        disabled_at=endpoint.disabled_at,
        failing_since=endpoint.failing_since,
        previous_until=endpoint.previous_until,
    )


def shown_address(url: str, *, with_path: bool) -> str:
    """A URL without what may be secret in it: receivers put tokens into the query, and some into the path."""
    parts = urlsplit(url)
    place = parts.scheme, parts.netloc.rpartition("@")[2]
    if with_path:
        return urlunsplit((*place, parts.path, "…" if parts.query else "", ""))
    return urlunsplit((*place, "/…" if parts.path.strip("/") or parts.query else parts.path, "", ""))


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
