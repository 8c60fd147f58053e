"""What the audit log tells of webhooks. Addresses may hold secrets: of them only the origin is told."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from jobstore.audit import Actor, AuditNote
from jobstore.webhooks.model import DeliveryFilter, EndpointChanges


def endpoint_note(by: Actor, action: str, endpoint_id: UUID, **details: Any) -> AuditNote:
    """What was done to an endpoint."""
    return AuditNote(by=by, action=action, target=str(endpoint_id), details=details)


def changed_fields(changes: EndpointChanges) -> list[str]:
    """The names of what changes, by the alphabet."""
    return sorted(name for name, value in msgspec.structs.asdict(changes).items() if value is not None)


def tested_note(by: Actor, endpoint_id: UUID, delivery_id: UUID) -> AuditNote:
    """That an endpoint was sent a test."""
    return endpoint_note(by, "webhook.tested", endpoint_id, delivery_id=str(delivery_id))


def one_redelivered_note(by: Actor, delivery_id: UUID) -> AuditNote:
    """That one delivery was asked for anew."""
    return AuditNote(by=by, action="webhooks.redelivered", target=str(delivery_id), details={"count": 1})


def redelivered_note(by: Actor, where: DeliveryFilter, count: int) -> AuditNote:
    """That many deliveries were asked for anew, and which."""
    named = {
        "state": where.state,
        "type": where.type,
        "job_id": None if where.job_id is None else str(where.job_id),
        "webhook_id": None if where.endpoint_id is None else str(where.endpoint_id),
    }
    details = {name: value for name, value in named.items() if value is not None}
    return AuditNote(by=by, action="webhooks.redelivered", target="deliveries", details={**details, "count": count})
