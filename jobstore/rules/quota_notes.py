"""What the audit log tells of quotas."""

from __future__ import annotations

from decimal import Decimal

from jobstore.audit import Actor, AuditNote
from jobstore.quotas import Quota
from jobstore.rules.rows import trimmed


def quota_note(by: Actor, action: str, quota: Quota, before: Quota | None = None) -> AuditNote:
    """What was done to the quota, and all that tells which one it is; of a change, also the limit until then."""
    limit = _plain(quota.most)
    details = {
        "owner": f"{quota.owner_kind} {quota.owner}",
        "kind": quota.kind.value,
        "limit": limit if before is None else {"from": _plain(before.most), "to": limit},
        "currency": quota.currency,
        "period": quota.period,
        "rolling": quota.rolling,
        "zone": quota.zone,
    }
    return AuditNote(by=by, action=action, target=str(quota.id), details=details)


def _plain(amount: Decimal) -> str:
    return format(trimmed(amount), "f")
