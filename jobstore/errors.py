"""What a job store raises."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from jobstore.quotas import QuotaStatus


class JobStoreError(Exception):
    """The root of all errors of this room."""


class JobNotFoundError(JobStoreError):
    """No job with that id."""


class IllegalTransitionError(JobStoreError):
    """The job's state does not allow that change; the message says what is allowed."""


class ReplayMismatchError(JobStoreError):
    """The idempotency key was used for another request."""


class ReplayGoneError(JobStoreError):
    """The idempotency key is remembered, but the job that it made has been deleted by age."""


class StoreBusyError(JobStoreError):
    """A search or report got no turn, or took too long; the message says what helps."""


class WorkerNotFoundError(JobStoreError):
    """There is no worker with that id, or it has left."""


class QuotaExceededError(JobStoreError):
    """A quota has no room: ``status`` tells which and how it stands, ``wanted`` what was asked of it.

    ``room_at`` is when there will be room at the latest if nothing else comes; None where waiting doesn't help.
    """

    def __init__(self, status: QuotaStatus, wanted: Decimal, room_at: datetime | None) -> None:
        super().__init__(f"{status.quota.label}: {status.left} are left, {wanted} were wanted")
        self.status = status
        self.wanted = wanted
        self.room_at = room_at


class QuotaNotFoundError(JobStoreError):
    """No quota with that id."""


class QuotaTakenError(JobStoreError):
    """The owner has a quota of that kind for that period already."""


class KeyNotFoundError(JobStoreError):
    """No API key with that id."""


class KeyNotInForceError(JobStoreError):
    """The API key is revoked or has expired; the message says what can be done."""


class LastAdminError(JobStoreError):
    """Without this key, no admin key would be in force."""


class MigrationError(JobStoreError):
    """The schema can't be brought up to date: a migration was changed after it was applied, or the schema is newer."""


class UnknownSchemeError(JobStoreError):
    """No store or outputs is registered for the URL's scheme; the message lists those that are."""


class OutputNotFoundError(JobStoreError):
    """No object lies under that key in the outputs."""


class OutputDamagedError(JobStoreError):
    """What lies under a picture's key is not as long as the picture that was stored there."""
