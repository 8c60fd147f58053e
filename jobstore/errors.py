"""What a job store raises."""

from __future__ import annotations


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


class MigrationError(JobStoreError):
    """The schema can't be brought up to date: a migration was changed after it was applied, or the schema is newer."""


class UnknownSchemeError(JobStoreError):
    """No store or outputs is registered for the URL's scheme; the message lists those that are."""


class OutputNotFoundError(JobStoreError):
    """No object lies under that key in the outputs."""


class OutputDamagedError(JobStoreError):
    """What lies under a picture's key is not as long as the picture that was stored there."""
