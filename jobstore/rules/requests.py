"""The client's side: accepting a job, canceling it, redriving it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

from msgspec import structs

from jobstore.errors import (
    IllegalTransitionError,
    JobNotFoundError,
    QuotaExceededError,
    ReplayGoneError,
    ReplayMismatchError,
)
from jobstore.job import CacheOutcome, JobState, NewJob, Picture, Replay
from jobstore.ledger import Spent
from jobstore.operating.jobs import LETTERS, JobFilter, Reached
from jobstore.protocol import Settled
from jobstore.quotas import Owner, QuotaStatus
from jobstore.rules.moves import Columns, end_now, followers_of, move, tell, write
from jobstore.rules.quotas import Admission, Entry, admission, owners_of
from jobstore.rules.rows import NOW, Booking, Place, Row, Rows, job_of
from jobstore.rules.settle import usage_of

_STANDING = {
    JobState.SCHEDULED: "is scheduled",
    JobState.QUEUED: "is queued",
    JobState.RUNNING: "is running",
    JobState.SUCCEEDED: "succeeded",
    JobState.CANCELED: "was canceled",
}


class Taken(NamedTuple):
    """The row of a submit's job, and how its owners' quotas stand; of a job that was made before, that isn't told."""

    row: Row
    quotas: tuple[QuotaStatus, ...] = ()


async def take(rows: Rows, new: NewJob, pictures: Sequence[Picture]) -> Taken | None:
    """The job that the submit's idempotency key made before, or else the one that it makes; None as ``accept`` says.

    Raises ReplayMismatchError, ReplayGoneError, QuotaExceededError.
    """
    row = await replayed(rows, new)
    return await accept(rows, new, pictures) if row is None else Taken(row)


async def replayed(rows: Rows, new: NewJob) -> Row | None:
    """The job that the submit's idempotency key made before; None where the key is this job's now.

    Raises ReplayMismatchError, ReplayGoneError.
    """
    while new.replay is not None and not await rows.add_replay(new):
        row = await find_replay(rows, new.key_id, new.replay)
        if row is not None:
            return row
        # Its time was over between the two looks: then it is to be had.
    return None


async def find_replay(rows: Rows, key_id: UUID | None, replay: Replay) -> Row | None:
    """The job that an idempotency key made; none where the replay is to make one in its place.

    Raises ReplayMismatchError, ReplayGoneError.
    """
    known = None if replay.renew else await rows.replay_of(key_id, replay.key)
    if known is None or known["job_id"] == replay.instead_of:
        return None
    if known["body_sha256"] != replay.body_sha256:
        raise ReplayMismatchError("the idempotency key was used for another request")
    row = await rows.read_job(known["job_id"])
    if row is None:
        raise ReplayGoneError("the job of this idempotency key has been deleted by age")
    return row


async def accept(rows: Rows, new: NewJob, pictures: Sequence[Picture]) -> Taken | None:
    """Insert a job as what it is: answered, joined to a render in flight, or waiting.

    None where an identical submit won the race: then the store runs the transaction again. Raises QuotaExceededError.
    """
    owners = owners_of(new.key_id, new.team, new.customer)
    gate = await admission(rows, owners)
    entries = gate.admit(new, owners, waits=not pictures)
    rows.book_quotas(gate.bookings)
    row = await accept_admitted(rows, new, pictures, entries)
    return None if row is None else Taken(row, gate.standing(owners))


async def accept_admitted(rows: Rows, new: NewJob, pictures: Sequence[Picture], entries: Sequence[Entry]) -> Row | None:
    """The same for a job that its quotas have let in already, booked in these slices of them; its row."""
    booked: Columns = {"quotas": [entry.kept for entry in entries]}
    if pictures:
        return await _answered(rows, new, pictures, booked)
    leader = None if new.request.start_at else await rows.lock_in_flight(new.fingerprint)
    if leader is not None and new.request.cache.reads:
        return await _join(rows, new, leader, booked)
    joinable = new.request.cache.writes and new.request.start_at is None and leader is None
    return await _accepted(rows, new, {"joinable": joinable, "reserved": new.price, **booked})


async def _answered(rows: Rows, new: NewJob, pictures: Sequence[Picture], booked: Columns) -> Row | None:
    columns = {"state": JobState.SUCCEEDED, "cache": CacheOutcome.HIT, "started_at": NOW, "finished_at": NOW, **booked}
    row = await _accepted(rows, new, columns)
    if row is not None:
        await rows.add_pictures([new.id], pictures)
        await rows.add_usage([usage_of(row, row, "succeeded", Spent())])
    return row


async def _join(rows: Rows, new: NewJob, leader: Row, booked: Columns) -> Row | None:
    """Follow ``leader`` (locked). A job whose own place would be further ahead takes the leader there."""
    columns = {
        **booked,
        "state": leader["state"],
        "cache": CacheOutcome.JOINED,
        "leader_id": leader["id"],
        "joinable": True,
        "started_at": NOW if leader["state"] == JobState.RUNNING else None,
    }
    row = await _accepted(rows, new, columns)
    if row is not None:
        ahead = leader["state"] == JobState.QUEUED and row["rank_at"] < leader["rank_at"]
        place = row if ahead else leader
        columns = {"followed": True, "rank_at": place["rank_at"], "start_tag": place["start_tag"]}
        await write(rows, [leader], lambda _: columns)
    return row


async def _accepted(rows: Rows, new: NewJob, columns: Columns) -> Row | None:
    row = await rows.add_job(new, columns)
    if row is not None:
        await tell(rows, [row], cache=row["cache"])
        if row["key_id"] is not None and row["reserved"]:
            rows.book([Booking(row["key_id"], row["currency"], row["reserved"], row["charged"])])
    return row


async def cancel(rows: Rows, job_id: UUID) -> Settled:
    """Cancel, and let those that joined go on. Raises JobNotFoundError."""
    row = await _found(rows, job_id)
    ring: tuple[str, ...] = ()
    if not JobState(row["state"]).terminal:
        if row["lease_token"] is not None and not await followers_of(rows, row):
            await write(rows, [row], lambda _: {"cancel_requested": True})
        else:
            ring = await end_now(rows, row, JobState.CANCELED)
    return Settled(job=await job_of(rows, await rows.read_job(job_id) or row), ring=ring)


async def would_cancel(rows: Rows, job_id: UUID) -> bool:
    """True where a cancel of the job, which is locked by this, changes anything."""
    row = await rows.lock_job(job_id)
    return row is not None and _cancels(row)


def _cancels(row: Row) -> bool:
    return not JobState(row["state"]).terminal and not row["cancel_requested"]


async def cancel_all(rows: Rows, ids: Sequence[UUID], where: JobFilter) -> Reached:
    """Cancel those of these jobs that still are as the filter says, and aren't asked to stop yet."""
    canceled: list[UUID] = []
    ring: list[str] = []
    for job_id in sorted(ids):  # in one order, so that two that cancel the same rarely wait for each other
        row = await rows.lock_job(job_id)
        if row is None or not _cancels(row) or not await _still_meant(rows, row, where):
            continue
        ring += (await cancel(rows, job_id)).ring
        canceled.append(job_id)
    return Reached(job_ids=tuple(canceled), ring=tuple(ring))


async def _still_meant(rows: Rows, row: Row, where: JobFilter) -> bool:
    """True where what may have changed since the job was found is as the filter says."""
    named = {"model": where.model, "lane": where.lane, "key_id": where.key_id}
    known = all(value is None or row[name] == value for name, value in named.items())
    if not known or (where.states and row["state"] not in where.states):
        return False
    if where.error_code is not None and (row["error"] or {}).get("code") != where.error_code:
        return False
    if where.finished_before is not None and not (row["finished_at"] and row["finished_at"] < where.finished_before):
        return False
    if where.worker_id is None and where.host is None:
        return True
    # Which worker has it or had it is more than its row tells: it is looked for once more, by its id.
    found, _ = await rows.find_jobs(structs.replace(where, text=str(row["id"]), cursor=None), 1)
    return found == [row["id"]]


async def retry(rows: Rows, job_id: UUID) -> Settled:
    """Queue a failed or dead job anew. Raises JobNotFoundError, IllegalTransitionError, QuotaExceededError."""
    seen = await rows.read_job(job_id)  # whose it is never changes: its quotas are locked before it
    gate = await admission(rows, [] if seen is None else _owners(seen))
    row = await _found(rows, job_id)
    state = JobState(row["state"])
    if state not in (JobState.FAILED, JobState.DEAD):
        raise IllegalTransitionError(f"only failed or dead jobs can be retried; this one {_STANDING[state]}")
    [row] = await _requeue(rows, [(row, _entries(gate, row))])
    return Settled(job=await job_of(rows, row), ring=(row["lane"],))


async def redrive(rows: Rows, ids: Sequence[UUID], where: JobFilter) -> Reached:
    """Queue those of these failed or dead jobs anew that still are as the filter says and find room in their quotas."""
    gate = await admission(rows, sorted({owner for row in await rows.whose(ids) for owner in _owners(row)}))
    found = await rows.lock_jobs(ids)
    admitted = []
    for row in found:
        if row["state"] in LETTERS and await _still_meant(rows, row, where):
            with suppress(QuotaExceededError):  # it stays a dead letter until there is room
                admitted.append((row, _entries(gate, row)))
    queued = await _requeue(rows, admitted)
    return Reached(job_ids=tuple(row["id"] for row in queued), ring=tuple(row["lane"] for row in queued))


def _entries(gate: Admission, ended: Row) -> list[Entry]:
    """Where an ended job is booked when it is queued anew: its quotas are asked again, but for those on submits.

    Raises QuotaExceededError, nothing booked.
    """
    return gate.admit(_Ended(ended["currency"], ended["ceiling"]), _owners(ended), waits=True, counts=False)


async def _requeue(rows: Rows, admitted: Sequence[tuple[Row, Sequence[Entry]]]) -> list[Row]:
    """Queue ended jobs at their price, with fresh attempts, in fresh places, in their order; each for itself."""
    if not admitted:
        return []
    jobs = [row for row, _ in admitted]
    await rows.restore([row["id"] for row in jobs])
    entries = {row["id"]: entries for row, entries in admitted}
    places = await _places(rows, jobs)

    def afresh(job: Row) -> Columns:
        return _afresh(places[job["id"]], entries[job["id"]], job)

    return await move(rows, jobs, JobState.QUEUED, also=afresh, reason="redriven")


async def _places(rows: Rows, jobs: Sequence[Row]) -> dict[UUID, Place]:
    """A place for each at the end of what its tenant has, behind those of the same tenant before it."""
    places: dict[UUID, Place] = {}
    ends: dict[tuple[str, UUID | None], float] = {}
    for job in jobs:
        tenant = job["lane"], job["key_id"]
        if tenant in ends:
            place = Place(start_tag=ends[tenant], rank_at=ends[tenant] + job["rank_at"] - job["start_tag"])
        else:
            place = await rows.place(job)
        places[job["id"]] = place
        ends[tenant] = place.start_tag + job["share_s"]
    return places


def _owners(row: Row) -> list[Owner]:
    return owners_of(row["key_id"], row["team"], row["customer"])


@dataclass(frozen=True, slots=True)
class _Ended:
    """What an ended job asks of its quotas when it is queued anew."""

    currency: str
    ceiling: Decimal


def _afresh(place: Place, entries: Sequence[Entry], job: Row) -> Columns:
    return {
        "joinable": False,
        "leader_id": None,
        "followed": False,
        "cache": CacheOutcome.MISS,
        "rescues": 0,
        "start_at": None,
        "start_by": None,
        "deadline_at": None,
        "attempts_allowed": job["attempts"] + job["max_attempts"],
        **dataclasses.asdict(place),
        "reserved": job["price"],
        "quotas": [entry.kept for entry in entries],
    }


async def _found(rows: Rows, job_id: UUID) -> Row:
    row = await rows.lock_job(job_id)
    if row is None:
        raise JobNotFoundError(f"no job {job_id}")
    return row
