"""The audit log: who changed what, and when. Neither secrets nor their digests are ever in it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from msgspec import Struct


class Actor(Struct, frozen=True, kw_only=True):
    """Who acts. ``key_id`` is None for the command line on the server's own machine, and where no key is wanted."""

    name: str
    key_id: UUID | None = None


class AuditNote(Struct, frozen=True, kw_only=True):
    """What somebody did: ``action`` is a stable word such as ``key.revoked``, ``target`` what it was done to.

    ``details`` are plain JSON values.
    """

    by: Actor
    action: str
    target: str
    details: Mapping[str, Any] = {}


class AuditEntry(Struct, frozen=True, kw_only=True):
    """A note as it was written down; ``at`` by the store's clock."""

    seq: int
    at: datetime
    key_id: UUID | None
    actor: str
    action: str
    target: str
    details: dict[str, Any]


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Which entries to list, newest first. ``cursor`` is what the page before gave.

    ``actor`` is a part of the name of who acted, in small letters or large ones. ``after`` and ``before`` bound the
    time: from the one on, and up to the other, which is not in it.
    """

    action: str | None = None
    target: str | None = None
    actor: str | None = None
    after: datetime | None = None
    before: datetime | None = None
    limit: int = 100
    cursor: str | None = None


class AuditPage(Struct, frozen=True, kw_only=True):
    """Entries, newest first, and the cursor of the next page (None on the last)."""

    entries: tuple[AuditEntry, ...]
    next_cursor: str | None = None


WHOLE_LOG = AuditFilter()


class AuditStore(Protocol):
    """What every job store does about the audit log."""

    async def audit(self, note: AuditNote) -> None:
        """Write down what somebody did."""

    async def list_audit(self, where: AuditFilter = WHOLE_LOG) -> AuditPage:
        """Audit entries, newest first.

        Raises ValueError on a cursor that no page gave, StoreBusyError where a search may not be made now.
        """
