"""What the plain store keeps: jobs, lanes and rows of the ledger."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from uuid import UUID

from jobstore.job import CacheOutcome, JobState, NewJob, Picture
from jobstore.ledger import Outcome

NOTHING = Decimal(0)


class Refused(Exception):
    """The store says no; the message says which of its errors it raises."""


@dataclass(frozen=True)
class PlainUsage:
    """A row of the ledger, without times. ``token`` is the plain store's own."""

    attempt: int
    token: int | None
    outcome: Outcome
    error_code: str | None
    cache: CacheOutcome
    gpu_seconds: Decimal
    price: Decimal
    charged: Decimal


@dataclass
class PlainJob:
    """A job. ``tag`` and ``rank`` are its place in its lane, ``share`` what it moves its tenant's next job by.

    ``new`` is what it is now: another model's, where that took over. ``been`` are the lanes that it has left.
    """

    new: NewJob
    seq: int
    allowed: int
    share: float = 0.0
    tag: float = 0.0
    rank: float = 0.0
    state: JobState = JobState.QUEUED
    cache: CacheOutcome = CacheOutcome.MISS
    joinable: bool = False
    leader: UUID | None = None
    token: int | None = None
    worker: UUID | None = None
    reserved: Decimal = NOTHING
    charged: Decimal = NOTHING
    gpu_seconds: Decimal = NOTHING
    attempts: int = 0
    rescues: int = 0
    cancel_requested: bool = False
    error: str | None = None
    started: bool = False
    ended: int | None = None
    late: bool = False
    late_start: bool = False
    pictures: tuple[Picture, ...] = ()
    events: list[tuple[str, int]] = field(default_factory=list)
    usage: list[PlainUsage] = field(default_factory=list)
    been: set[str] = field(default_factory=set)

    @property
    def lane(self) -> str:
        """Where it is, or was at its end."""
        return self.new.lane

    @property
    def routes(self) -> int:
        """How many it has not taken yet."""
        return len(self.new.fallbacks)

    @property
    def id(self) -> UUID:
        """As the client chose it."""
        return self.new.id

    @property
    def waits(self) -> bool:
        """True when it stands in its lane's queue itself."""
        return self.state is JobState.QUEUED and self.leader is None

    @property
    def overdue(self) -> bool:
        """True when a deadline ends it unless somebody renders it."""
        return self.late or (self.late_start and not self.started)


@dataclass
class PlainLane:
    """A lane and its clock."""

    paused: bool = False
    virtual: float = 0.0
    tenants: int = 1
    served: int = 0
