"""The state machine of a job: which transition is legal, and by whose doing."""

from __future__ import annotations

from jobstore.job import JobState

_S = JobState

TRANSITIONS: dict[JobState, dict[JobState, str]] = {
    _S.SCHEDULED: {
        _S.QUEUED: "its time has come",
        _S.CANCELED: "canceled by the client",
        _S.FAILED: "deadline passed",
    },
    _S.QUEUED: {
        _S.RUNNING: "claimed by a worker",
        _S.CANCELED: "canceled by the client",
        _S.FAILED: "deadline passed",
    },
    _S.RUNNING: {
        _S.SUCCEEDED: "finished under its token",
        _S.FAILED: "an error that a retry would not mend",
        _S.CANCELED: "canceled at a step boundary",
        _S.QUEUED: "handed back, rescued, retried or sent on",
        _S.SCHEDULED: "retried later",
        _S.DEAD: "attempts or rescues used up",
    },
    _S.FAILED: {_S.QUEUED: "redriven"},
    _S.DEAD: {_S.QUEUED: "redriven"},
    _S.SUCCEEDED: {},
    _S.CANCELED: {},
}


def sources_of(target: JobState) -> tuple[JobState, ...]:
    """The states from which ``target`` may be reached, for the WHERE clause of a store."""
    return tuple(state for state, targets in TRANSITIONS.items() if target in targets)
