"""Which API keys count, asked of the store and remembered for seconds."""

from __future__ import annotations

import hmac
import ipaddress
import time
from collections import OrderedDict

from jobstore.keys import hash_secret
from jobstore.protocol import ApiKey, JobStore
from safelight.config import ConfigError

_TTL_S = 3.0
_MAX_KEYS = 1024


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
    if not any(key.admin and key.revoked_at is None for key in await store.list_keys()):
        raise ConfigError(
            f"{host} can be reached from other machines, and there is no admin key: "
            "make one with  safelight keys create NAME --admin  or serve on 127.0.0.1"
        )


class KeyRing:
    """Looks keys up by the hash of their secret. A revoked key is refused after ``_TTL_S`` seconds at the latest."""

    def __init__(self, store: JobStore, host: str, own_secret: str | None = None) -> None:
        """``host`` is the address that is served. ``own_secret`` lets this process in, whatever the store says."""
        self.loopback = is_loopback(host)
        self._own = None if own_secret is None else hash_secret(own_secret)
        self._store = store
        self._known: OrderedDict[str, tuple[float, ApiKey]] = OrderedDict()
        self._any: tuple[float, bool] = (-_TTL_S, False)

    async def wanted(self) -> bool:
        """True when a request needs a key: always off loopback, and as soon as a key was ever made."""
        if not self.loopback:
            return True
        asked, answer = self._any
        if not answer and time.monotonic() - asked >= _TTL_S:
            answer = bool(await self._store.list_keys())
            self._any = (time.monotonic(), answer)
        return answer

    def is_own(self, secret: str) -> bool:
        """True for this process's own secret, which no store knows. Takes the same time for any other."""
        return self._own is not None and hmac.compare_digest(self._own, hash_secret(secret))

    async def find(self, secret: str) -> ApiKey | None:
        """The key that belongs to ``secret``. Unknown ones are not remembered, so that a new key counts at once."""
        digest = hash_secret(secret)
        known = self._known.get(digest)
        if known and time.monotonic() - known[0] < _TTL_S:
            return known[1]
        key = await self._store.find_key(digest)
        self._known.pop(digest, None)
        if key is not None:
            self._known[digest] = (time.monotonic(), key)
            if len(self._known) > _MAX_KEYS:
                self._known.popitem(last=False)
        return key

    def forget(self) -> None:
        """Ask the store anew for everything."""
        self._known.clear()
        self._any = (-_TTL_S, False)
