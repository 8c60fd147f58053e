"""Who is signed in: a signed cookie that names a key, never its secret.

Nothing of it is kept. It counts while its key is in force, has the same secret, and may look at the admin pages.
"""

from __future__ import annotations

import re
import secrets
import time
from urllib.parse import urlsplit
from uuid import UUID

from litestar.datastructures import Cookie
from msgspec import Struct

from api.keyring import KeyRing
from api.signing import Signer
from jobstore.keys import ApiKey, Scope
from safelight.config import Settings

COOKIE = "safelight_admin"
PATH = "/admin"
LIFETIME_S = 12 * 3600
_VALUE = re.compile(r"([0-9a-f-]{36})\.([0-9]{1,12})\.([0-9a-f]{32})\.([A-Za-z0-9_-]{0,16})\.([0-9a-f]{64})")


class Session(Struct, frozen=True, kw_only=True):
    """A key's sign-in until ``expires`` (Unix time). ``hint`` is the start of the secret that was shown then."""

    key_id: UUID
    expires: int
    nonce: str
    hint: str

    @property
    def text(self) -> bytes:
        """What is signed."""
        return f"safelight admin session 1\n{self.key_id}\n{self.expires}\n{self.nonce}\n{self.hint}".encode()


class Sessions:
    """Makes sessions and finds their keys."""

    def __init__(self, settings: Settings, keys: KeyRing) -> None:
        self._signer = Signer(settings)
        self._keys = keys
        self._https = urlsplit(settings.server.public_url).scheme == "https"

    async def begin(self, key: ApiKey, scheme: str) -> Cookie:
        """The cookie of a fresh session. ``scheme`` is that of the request."""
        session = Session(
            key_id=key.id, expires=int(time.time()) + LIFETIME_S, nonce=secrets.token_hex(16), hint=_plain(key.hint)
        )
        signature = await self._signer.sign(session.text)
        value = f"{session.key_id}.{session.expires}.{session.nonce}.{session.hint}.{signature}"
        return self._cookie(value, LIFETIME_S, scheme)

    def end(self, scheme: str) -> Cookie:
        """A cookie that takes the session's away."""
        return self._cookie("", 0, scheme)

    async def find(self, value: str) -> tuple[Session, ApiKey] | None:
        """The session that a cookie holds, and its key; None for one that doesn't count."""
        found = _VALUE.fullmatch(value)
        if found is None:
            return None
        try:
            session = Session(key_id=UUID(found[1]), expires=int(found[2]), nonce=found[3], hint=found[4])
        except ValueError:
            return None
        if not await self._signer.signed(session.text, found[5]) or session.expires <= time.time():
            return None
        key = await self._keys.find_by_id(session.key_id)
        if key is None or _plain(key.hint) != session.hint or not key.allows(Scope.OBSERVE):
            return None
        return session, key

    async def form_token(self, session: Session | None) -> str:
        """What every form of the session sends along, and no other site knows."""
        nonce = "" if session is None else session.nonce
        return await self._signer.sign(f"safelight admin form 1\n{nonce}".encode())

    async def is_form_token(self, token: str, session: Session | None) -> bool:
        """True for the session's own."""
        nonce = "" if session is None else session.nonce
        return await self._signer.signed(f"safelight admin form 1\n{nonce}".encode(), token)

    def _cookie(self, value: str, lifetime_s: int, scheme: str) -> Cookie:
        secure = self._https or scheme == "https"
        return Cookie(
            COOKIE, path=PATH, value=value, max_age=lifetime_s, secure=secure, httponly=True, samesite="strict"
        )


def _plain(hint: str) -> str:
    """The hint as a cookie can hold it."""
    return re.sub(r"[^A-Za-z0-9_-]", "", hint)[:16]
