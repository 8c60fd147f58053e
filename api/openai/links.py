"""Links to pictures that open without a key: signed, and good for a bounded time.

OpenAI's clients fetch the ``url`` of an image bare. The signature (HMAC-SHA256) covers the picture, what it is turned
into, and the time until which the link counts; nothing of it is kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode
from uuid import UUID

from msgspec import Struct

from safelight.config import Settings
from safelight.telemetry import get_logger

_log = get_logger(__name__)

PATH = "/v1/linked-images"
_FILE = "signing.key"
_LENGTH = 32  # bytes at least


class Link(Struct, frozen=True, kw_only=True):
    """A picture of a job, as ``format`` of ``compression`` where that is asked for, until ``expires`` (Unix time)."""

    job_id: UUID
    index: int
    expires: int
    format: str = ""
    compression: str = ""

    @property
    def text(self) -> bytes:
        """What is signed."""
        parts = ("safelight image link 1", self.job_id, self.index, self.expires, self.format, self.compression)
        return "\n".join(map(str, parts)).encode()


class LinkSigner:
    """Signs links, and tells those that it signed. The secret is read, or made, at the first use."""

    def __init__(self, settings: Settings) -> None:
        self._given = settings.server.signing_secret
        self._home = Path(settings.home)
        self._lifetime_s = settings.server.url_lifetime_s
        self._secret: bytes | None = None

    async def path(self, job_id: UUID, index: int, format: str = "", compression: int | None = None) -> str:
        """The path and query of a fresh link."""
        link = Link(
            job_id=job_id,
            index=index,
            expires=int(time.time() + self._lifetime_s),
            format=format,
            compression="" if compression is None else str(compression),
        )
        query = {"expires": str(link.expires), "format": link.format, "compression": link.compression}
        query = {name: value for name, value in query.items() if value}
        return f"{PATH}/{job_id}/{index}?{urlencode({**query, 'signature': await self._sign(link)})}"

    async def counts(self, link: Link, signature: str) -> bool:
        """True for a signature of ours on a link whose time has not passed. Takes the same time for any other."""
        right = hmac.compare_digest((await self._sign(link)).encode(), signature.encode())
        return right and time.time() < link.expires

    async def _sign(self, link: Link) -> str:
        if self._secret is None:
            self._secret = self._given.encode() or await asyncio.to_thread(_kept_secret, self._home)
        return hmac.new(self._secret, link.text, hashlib.sha256).hexdigest()


def _kept_secret(home: Path) -> bytes:
    """The secret of the data folder, made where there is none; all processes that share the folder share it.

    Where nothing can be written there, one for this process alone.
    """
    file = home / _FILE
    try:
        if not file.exists():
            _make(file)
        secret, reason = file.read_bytes(), "it is cut off"
    except OSError as error:
        secret, reason = b"", str(error)
    if len(secret) >= _LENGTH:
        return secret
    _log.warning("links are signed for this process alone", action="links.no_secret", file=str(file), reason=reason)
    return secrets.token_bytes(_LENGTH)


def _make(file: Path) -> None:
    """Whole or not at all: of several processes that make it at once, one succeeds."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = file.with_suffix(f".{secrets.token_hex(8)}")
    try:
        handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(secrets.token_hex(32).encode())
        with suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink(missing_ok=True)
