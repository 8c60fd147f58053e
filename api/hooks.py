"""Addresses and secrets that clients name, looked at before anything is written."""

from __future__ import annotations

from api.problems import invalid
from api.webhook_schemas import WebhookRequest
from jobstore.job import JobWebhook
from jobstore.webhooks.addresses import AddressRules, RefusedAddressError, Target
from jobstore.webhooks.signing import key_of
from safelight.config import WebhookSettings


def resolve_webhook(
    wanted: WebhookRequest | str | None, settings: WebhookSettings
) -> tuple[JobWebhook | None, str | None]:
    """The webhook of a submit, and what signs it. Raises ProblemError naming ``webhook``."""
    if wanted is None:
        return None, None
    asked = WebhookRequest(url=wanted) if isinstance(wanted, str) else wanted
    target = checked_url(asked.url, settings, "webhook")
    if asked.secret is not None:
        try:
            key_of(asked.secret)
        except ValueError as error:
            raise invalid("webhook", f"webhook: {error}") from None
    events = tuple(dict.fromkeys(asked.events))
    hook = JobWebhook(url=target.url, origin=target.origin, events=events, signed=asked.secret is not None)
    return hook, asked.secret


def checked_url(url: str, settings: WebhookSettings, field: str) -> Target:
    """The target of a URL. Raises ProblemError naming ``field``."""
    try:
        return AddressRules(settings).check_url(url)
    except RefusedAddressError as error:
        raise invalid(field, f"{field}: this URL is not called: {error}") from None
