"""Signing what clients keep for us: links to pictures, and sessions of the admin pages.

Each kind of text begins with a name of its own, so that the signature of one never counts for another.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

from safelight.config import Settings
from safelight.telemetry import get_logger

_log = get_logger(__name__)

_FILE = "signing.key"
_LENGTH = 32  # bytes at least


class Signer:
    """Signs with the server's secret (HMAC-SHA256), which is read, or made, at the first use."""

    def __init__(self, settings: Settings) -> None:
        self._given = settings.server.signing_secret
        self._home = Path(settings.home)
        self._secret: bytes | None = None

    async def sign(self, text: bytes) -> str:
        """The signature, hex."""
        if self._secret is None:
            self._secret = self._given.encode() or await asyncio.to_thread(_kept_secret, self._home)
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()

    async def signed(self, text: bytes, signature: str) -> bool:
        """True for a signature of ours on ``text``. Takes the same time for any other."""
        return hmac.compare_digest((await self.sign(text)).encode(), signature.encode())


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
    _log.warning(
        "links and sessions are signed for this process alone",
        action="signing.no_secret",
        file=str(file),
        reason=reason,
    )
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
