"""Transitions: the one place that changes a job's state, tells of it in an event, and moves its money along."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from jobstore.job import CacheOutcome, JobError, JobState
from jobstore.rules.quotas import changes
from jobstore.rules.rows import NOW, Booking, In, Row, Rows
from jobstore.states import sources_of

Columns = Mapping[str, Any]

_INHERITED = ("attempts", "rescues", "lease_token", "worker_id", "start_at", "rung_at")


async def move(
    rows: Rows,
    jobs: Sequence[Row],
    state: JobState,
    *,
    lease: tuple[int, UUID] | None = None,
    error: JobError | None = None,
    delay_s: float = 0.0,
    also: Callable[[Row], Columns] | None = None,
    **told: Any,
) -> list[Row]:
    """Move locked jobs to ``state`` and write their events (``told`` goes into the event's data); the new rows.

    ``lease`` is the token and the worker of jobs that start. ``also`` gives further columns of a job. A job from whose
    state ``state`` can't be reached stays as it is and is not among the rows.
    """

    def columns(job: Row) -> Columns:
        return _moved(job, state, lease, error, delay_s) | dict(also(job) if also else {})

    moved = await write(rows, [job for job in jobs if JobState(job["state"]) in sources_of(state)], columns)
    await tell(rows, moved, **told)
    return moved


def _moved(
    job: Row, state: JobState, lease: tuple[int, UUID] | None, error: JobError | None, delay_s: float
) -> dict[str, Any]:
    token, worker_id = lease or (None, None)
    columns: dict[str, Any] = {
        "state": state,
        "lease_token": token if job["leader_id"] is None else None,
        "worker_id": worker_id,
        "error": None if error is None else msgspec.to_builtins(error),
        "finished_at": NOW if state.terminal else None,
    }
    if state.terminal:
        columns["reserved"] = Decimal(0)
    elif state is not JobState.RUNNING:
        columns["cancel_requested"] = False
    if state is JobState.RUNNING and job["started_at"] is None:
        columns["started_at"] = NOW
    if state is JobState.SCHEDULED:
        columns["start_at"] = In(delay_s)
    if state is JobState.QUEUED:
        columns["rung_at"] = NOW
    return columns


async def write(rows: Rows, jobs: Sequence[Row], columns_of: Callable[[Row], Columns]) -> list[Row]:
    """Set columns of locked jobs, and book what that changes in balances and quotas; the new rows, in order."""
    alike: list[tuple[Columns, list[UUID]]] = []
    for job in jobs:
        columns = columns_of(job)
        group = next((group for known, group in alike if known == columns), None)
        if group is None:
            alike.append((columns, [job["id"]]))
        else:
            group.append(job["id"])
    changed = {row["id"]: row for row in await rows.change(alike)}
    rows.book([booking for job in jobs if (booking := _booking(job, changed[job["id"]])) is not None])
    rows.book_quotas([booking for job in jobs for booking in changes(job, changed[job["id"]])])
    return [changed[job["id"]] for job in jobs]


def _booking(before: Row, after: Row) -> Booking | None:
    reserved, charged = (after[name] - before[name] for name in ("reserved", "charged"))
    if after["key_id"] is None or not (reserved or charged):
        return None
    return Booking(after["key_id"], after["currency"], reserved, charged)


async def tell(rows: Rows, jobs: Sequence[Row], **told: Any) -> None:
    """Write the events that jobs are in their rows' states now."""
    await rows.tell([(job["id"], *event_of(job, **told)) for job in jobs])


def event_of(job: Row, **told: Any) -> tuple[str, dict[str, Any]]:
    """Kind and data of the event that a job is in its row's state now."""
    state = JobState(job["state"])
    data = {"state": state.value, "attempt": job["attempts"], **told}
    if job["error"] is not None:
        data["error"] = job["error"]
    return "done" if state.terminal else "state", data


async def followers_of(rows: Rows, leader: Row) -> list[Row]:
    """The jobs that joined ``leader`` (locked), oldest first, locked."""
    return await rows.lock_followers(leader["id"]) if leader["followed"] else []


async def detach(rows: Rows, followers: Sequence[Row], **told: Any) -> tuple[str, ...]:
    """Queue jobs that had joined as jobs of their own, at their own price; one lane for each bell to ring."""
    changed = await write(
        rows,
        followers,
        lambda job: {
            "leader_id": None,
            "joinable": False,
            "cache": CacheOutcome.MISS,
            "reserved": job["price"],
            "state": JobState.QUEUED,
            "worker_id": None,
            "attempts": 0,  # those that it counted were its leader's
            "rescues": 0,
            "rung_at": NOW,
        },
    )
    await tell(rows, changed, **told)
    return tuple(job["lane"] for job in changed)


async def succeed_leader(rows: Rows, leader: Row, followers: Sequence[Row]) -> tuple[str, ...]:
    """Let the first job that joined take the place of a leader that has just ended: its rank, lease and attempts.

    ``leader`` is the leader's row from before its end. A render goes on for whoever wants it in the same file format;
    where nobody does, the heir is queued anew. Returns one lane for each bell to ring.
    """
    if not followers:
        return ()
    rendering = leader["lease_token"] is not None
    alike = [row for row in followers if row["format"] == leader["format"]]
    if rendering and not alike:
        leader = {**leader, "lease_token": None, "worker_id": None, "attempts": max(leader["attempts"] - 1, 0)}
        followers = await move(rows, followers, JobState.QUEUED, reason="render of another format")
    heir = alike[0] if rendering and alike else followers[0]
    taken = await write(rows, [heir], lambda job: _inheritance(job, leader))
    others = [row for row in followers if row["id"] != heir["id"]]
    await write(rows, others, lambda _: {"leader_id": heir["id"]})
    await tell(rows, taken, reason="took over from a job that ended")
    return (heir["lane"],) if taken[0]["state"] == JobState.QUEUED else ()


def _inheritance(heir: Row, leader: Row) -> Columns:
    place = min(heir, leader, key=lambda job: float(job["rank_at"]))
    return {
        "leader_id": None,
        "followed": True,
        "cache": CacheOutcome.MISS,
        "reserved": heir["price"],
        "rank_at": place["rank_at"],
        "start_tag": place["start_tag"],
        **{name: leader[name] for name in _INHERITED},
    }


async def end_now(rows: Rows, job: Row, state: JobState, *, error: JobError | None = None) -> tuple[str, ...]:
    """End a job (locked) whatever its worker does; who joined it goes on. Returns one lane for each bell to ring."""
    followers = await followers_of(rows, job)
    await move(rows, [job], state, error=error)
    return await succeed_leader(rows, job, followers)


async def give_back(rows: Rows, leader: Row, reason: str, rescues: int = 0) -> None:
    """Queue a running job (locked) and those that joined it anew, in their old place; the attempt is not counted."""

    def uncounted(job: Row) -> Columns:
        return {"attempts": max(job["attempts"] - 1, 0), "rescues": job["rescues"] + rescues}

    jobs = [leader, *await followers_of(rows, leader)]
    await move(rows, jobs, JobState.QUEUED, also=uncounted, reason=reason)
