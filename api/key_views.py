"""API keys and the audit log as administrators see them, over HTTP and by the command."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from api.key_schemas import AuditView, KeyMade, KeyView
from jobstore.audit import AuditEntry
from jobstore.keys import ApiKey


def key_view(key: ApiKey) -> KeyView:
    """A key as administrators see it."""
    return KeyView(**_fields(key))


def made_view(key: ApiKey, secret: str) -> KeyMade:
    """A key with its new secret."""
    return KeyMade(**_fields(key), secret=secret)


def audit_view(entry: AuditEntry) -> AuditView:
    """What somebody did."""
    return AuditView(
        id=entry.seq,
        at=entry.at,
        actor=entry.actor,
        key_id=entry.key_id,
        action=entry.action,
        target=entry.target,
        details=entry.details,
    )


def _fields(key: ApiKey) -> dict[str, Any]:
    fields = msgspec.structs.asdict(key)
    del fields["admin"]  # the scope says it
    over = key.expires_at is not None and key.expires_at <= datetime.now(UTC)
    return fields | {"state": "revoked" if key.revoked_at else "expired" if over else "in_force"}
