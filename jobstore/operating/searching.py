"""What a search for jobs can be narrowed to by an index, whatever the database."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from jobstore.job import JobState
from jobstore.operating.jobs import UNFINISHED, JobFilter

SPOILT = (JobState.FAILED, JobState.DEAD, JobState.CANCELED)
"""What ended without pictures: few among the many, and with an index of their own."""

NEIGHBOURS = 100
"""Ids are in the order of sequence numbers but for those that were made in the same moment."""

_CLOCKS = timedelta(minutes=1)  # by how much the clock of who made an id may differ from the store's
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_RANDOM_BITS = 80  # of an id: what comes after its milliseconds


def is_unfinished(where: JobFilter) -> bool:
    """True where only jobs that haven't ended are looked for."""
    return bool(where.states) and all(state in UNFINISHED for state in where.states)


def is_running(where: JobFilter) -> bool:
    """True where only running jobs are looked for: no more than workers have slots, and jobs that joined those."""
    return where.states == (JobState.RUNNING,)


def is_spoilt(where: JobFilter) -> bool:
    """True where only jobs that ended without pictures are looked for."""
    return bool(where.states) and all(state in SPOILT for state in where.states)


def named_id(where: JobFilter) -> UUID | None:
    """The job that the text names by its whole id."""
    try:
        return UUID(where.text) if where.text is not None and len(where.text) == 36 else None
    except ValueError:
        return None


def oldest_id(where: JobFilter) -> UUID | None:
    """No job that was created after ``created_after`` has a lower id."""
    return None if where.created_after is None else _id_at(where.created_after, -_CLOCKS)


def newest_id(where: JobFilter) -> UUID | None:
    """No job that was created before ``created_before`` has a higher id."""
    return None if where.created_before is None else _id_at(where.created_before, _CLOCKS)


def _id_at(at: datetime, later: timedelta) -> UUID:
    """The lowest id of a time; at the calendar's ends, what is ``later`` may be no date."""
    milliseconds = max((at - _EPOCH + later) // timedelta(milliseconds=1), 0)
    return UUID(int=min(milliseconds, 2**48 - 1) << _RANDOM_BITS)
