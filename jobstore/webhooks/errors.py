"""What a store raises about webhooks."""

from __future__ import annotations

from jobstore.errors import JobStoreError


class WebhookNotFoundError(JobStoreError):
    """No endpoint or delivery with that id."""


class WebhookDisabledError(JobStoreError):
    """The endpoint is disabled: nothing is delivered to it."""


class TooManyWebhooksError(JobStoreError):
    """The key has as many endpoints as it may."""
