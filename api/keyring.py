"""Which API keys count, asked of the store and remembered for seconds."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar
from uuid import UUID

from api.problems import ProblemError
from jobstore.errors import KeyNotFoundError
from jobstore.keys import ApiKey, Digester, KeyFilter, hash_secret
from jobstore.protocol import JobStore
from safelight.config import ConfigError
from safelight.telemetry import get_logger

_log = get_logger(__name__)

T = TypeVar("T")

STALE_S = 1.5
"""How old, in seconds, what is known of a key may be. docs/keys.md promises 2: the rest is for the request itself."""
_MAX_KNOWN = 4096
_MAX_UNKNOWN = 1024
_MAX_LOOKUPS = 4  # of secrets that nobody knows, at a time
_MAX_STRANGERS = 64  # these, and those that wait for their turn


def is_loopback(host: str) -> bool:
    """True for an address that no other machine can reach."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


async def require_keys(host: str, store: JobStore) -> None:
    """Refuse to serve on ``host`` without an admin key, unless it is a loopback address. Raises ConfigError."""
    if is_loopback(host):
        return
    if not await store.list_keys(KeyFilter(admins=True, limit=1)):
        raise ConfigError(
            f"{host} can be reached from other machines, and there is no admin key: "
            "make one with  safelight keys create NAME --admin  or serve on 127.0.0.1"
        )


async def warn_without_pepper(store: JobStore, pepper: str) -> None:
    """Log an error where this process lacks the pepper that keys were made with: it would refuse them all."""
    if pepper:
        return
    keys = await store.list_keys()
    lost = sum(key.peppered and key.revoked_at is None for key in keys)
    if lost:
        _log.error(
            "keys were made with a pepper that is not set here: they are refused", action="keys.no_pepper", keys=lost
        )


@dataclass(frozen=True, slots=True)
class _Known:
    """A key as the store told it, and until when that may be used, in seconds of this process's own clock."""

    key: ApiKey
    until: float


class KeyRing:
    """Looks keys up by the digest of their secret, and remembers for ``STALE_S`` seconds what the store said.

    So a key that was revoked, rotated or changed elsewhere counts no more after that time, and one that expires stops
    at that very moment. Keys that are known are asked for anew without a bound but their number; secrets that nobody
    knows share a few look-ups, so that a flood of them reaches neither the database nor those who have a key.
    """

    def __init__(
        self,
        store: JobStore,
        host: str,
        own_secret: str | None = None,
        pepper: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``host`` is the address that is served. ``own_secret`` lets this process in, whatever the store says."""
        self.loopback = is_loopback(host)
        self.digester = Digester(pepper)
        self._own = None if own_secret is None else hash_secret(own_secret)
        self._store = store
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._unknown: OrderedDict[str, float] = OrderedDict()  # digest -> until when it is taken for unknown
        self._by_id: OrderedDict[str, _Known] = OrderedDict()
        self._asked: dict[str, asyncio.Task[ApiKey | None]] = {}
        self._lookups = asyncio.Semaphore(_MAX_LOOKUPS)
        self._strangers = 0
        self._any: tuple[float, bool] = (-STALE_S, False)

    async def wanted(self) -> bool:
        """True when a request needs a key: always off loopback, and as soon as a key was ever made."""
        if not self.loopback:
            return True
        asked, answer = self._any
        if not answer and self._clock() - asked >= STALE_S:
            asked = self._clock()
            answer = bool(await self._store.list_keys(KeyFilter(limit=1)))
            self._any = (asked, answer)
        return answer

    def is_own(self, secret: str) -> bool:
        """True for this process's own secret, which no store knows. Takes the same time for any other."""
        return self._own is not None and hmac.compare_digest(self._own, hash_secret(secret))

    async def find(self, secret: str) -> ApiKey | None:
        """The key in force that belongs to ``secret``. Raises ProblemError (503) under a flood of unknown ones.

        Secrets are compared as digests alone: how long that takes tells nothing of a secret.
        """
        digest = hash_secret(secret)
        known = self._known.get(digest)
        if known is not None and known.until > self._clock():
            return known.key
        if self._unknown.get(digest, -STALE_S) > self._clock():
            return None
        # One look-up for all that want the same; whoever gives up leaves it to the others.
        return await asyncio.shield(self._asked.get(digest) or self._begin(digest, secret, stranger=known is None))

    async def find_by_id(self, key_id: UUID) -> ApiKey | None:
        """The key in force of that id, as fresh as ``find``: for who showed its secret before."""
        known = self._by_id.get(str(key_id))
        if known is None or known.until <= self._clock():
            begun = self._clock()
            try:
                known = _Known(await self._store.get_key(key_id), begun + STALE_S)
            except KeyNotFoundError:
                return None
            _keep(self._by_id, str(key_id), known, _MAX_KNOWN)
        key = known.key
        over = key.expires_at is not None and key.expires_at <= datetime.now(UTC)
        return None if over or key.revoked_at is not None else key

    def _begin(self, digest: str, secret: str, *, stranger: bool) -> asyncio.Task[ApiKey | None]:
        if stranger and self._strangers >= _MAX_STRANGERS:
            detail = "too many unknown API keys are being looked up at the moment"
            raise ProblemError(503, "unavailable", detail, headers={"Retry-After": "1"})
        self._strangers += stranger
        task = self._asked[digest] = asyncio.create_task(self._ask(digest, secret, stranger))
        task.add_done_callback(lambda done: self._heard(digest, done, stranger))
        return task

    def _heard(self, digest: str, task: asyncio.Task[ApiKey | None], stranger: bool) -> None:
        self._strangers -= stranger
        if self._asked.get(digest) is task:
            del self._asked[digest]
        if not task.cancelled():
            task.exception()  # whoever waited has it; all of them may have gone

    async def _ask(self, digest: str, secret: str, stranger: bool) -> ApiKey | None:
        async with self._lookups if stranger else nullcontext():
            begun = self._clock()  # what the answer says was so at this moment or later
            match = await self._store.find_key(*self.digester.known(secret))
        ends_at = begun + (float("inf") if match is None or match.left_s is None else match.left_s)
        if self._asked.get(digest) is asyncio.current_task():  # else all was forgotten meanwhile
            self._known.pop(digest, None)
            if match is None:
                _keep(self._unknown, digest, begun + STALE_S, _MAX_UNKNOWN)
            else:
                _keep(self._known, digest, _Known(match.key, min(begun + STALE_S, ends_at)), _MAX_KNOWN)
        return match.key if match is not None and self._clock() < ends_at else None

    def forget(self) -> None:
        """Ask the store anew for everything, and don't keep what it is asked for just now."""
        for digest, known in self._known.items():  # no strangers all the same
            self._known[digest] = _Known(known.key, float("-inf"))
        self._by_id.clear()
        self._unknown.clear()
        self._asked.clear()
        self._any = (-STALE_S, False)


def _keep(kept: OrderedDict[str, T], digest: str, value: T, most: int) -> None:
    """Remember; what was put in first makes room."""
    kept.pop(digest, None)
    kept[digest] = value
    if len(kept) > most:
        kept.popitem(last=False)
