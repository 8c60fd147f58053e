"""Writes the end of a render to the store, for as long as the lease can be thought to hold."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal

from actors.leases import HeldJob, Leases
from actors.retries import retry_in_s
from jobstore.errors import JobStoreError
from jobstore.job import JobError
from jobstore.ledger import NOTHING_SPENT, Spent
from jobstore.live import Bell
from jobstore.protocol import Finish, JobStore, Settled
from safelight.telemetry import get_logger

_log = get_logger(__name__)

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 2.0
_PERSIST_S = 120.0  # for a store that answers beats and refuses results


@dataclass(frozen=True, slots=True)
class Rendered:
    """The pictures are there."""

    finish: Finish


@dataclass(frozen=True, slots=True)
class Failed:
    """There will be no pictures this time. ``retry_after_s`` is how long to wait at least before another try."""

    error: JobError
    spent: Spent = NOTHING_SPENT
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """The client canceled."""

    spent: Spent = NOTHING_SPENT


@dataclass(frozen=True, slots=True)
class HandedBack:
    """The process stops before the pictures are there."""

    spent: Spent = NOTHING_SPENT


Outcome = Rendered | Failed | Stopped | HandedBack


def device_seconds(outcome: Outcome) -> Decimal:
    """The device time that an attempt took, in seconds."""
    return outcome.finish.gpu_seconds if isinstance(outcome, Rendered) else outcome.spent.gpu_seconds


Write = Callable[[], Awaitable[Settled | None]]


class Settler:
    """Settles leases in the store, each at most once: the store's fencing token sees to that."""

    def __init__(self, store: JobStore, leases: Leases, bell: Bell) -> None:
        self._store = store
        self._leases = leases
        self._bell = bell

    async def settle(self, held: HeldJob, outcome: Outcome) -> Settled | None:
        """Write the outcome under the lease's token and ring for what it queued; None where the lease is gone.

        While the store can't be reached it tries again, until the lease must be taken as lost.
        """
        held.settling = True
        settled = await self._persist(held, self._write(held, outcome))
        if settled is None:
            held.lose()
            return None
        for lane in settled.ring:
            self._bell.ring(lane)
        return settled

    def _write(self, held: HeldJob, outcome: Outcome) -> Write:
        token = held.lease.token
        match outcome:
            case Rendered(finish):
                return lambda: self._store.finish(token, finish)
            case Failed(error, spent, retry_after_s):
                pause = retry_in_s(error, held.lease.job.attempts)
                if pause is not None and retry_after_s is not None:
                    pause = max(pause, retry_after_s)
                return lambda: self._store.fail(token, error, pause, spent)
            case Stopped(spent):
                return lambda: self._store.canceled(token, spent)
            case HandedBack(spent):
                return lambda: self._store.release(token, spent)

    async def _persist(self, held: HeldJob, write: Write) -> Settled | None:
        pause = _FIRST_PAUSE_S
        give_up_at = time.monotonic() + _PERSIST_S
        while not held.lost:
            try:
                return await write()
            except JobStoreError:
                raise
            except Exception as error:  # the driver's errors differ by store; nearly all mean it can't be reached
                held.uncertain = True
                if time.monotonic() > give_up_at:
                    raise
                _log.warning("result not written, trying again", action="settle.retry", error=type(error).__name__)
            if self._leases.overdue:
                break
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        return None
