"""Links to pictures that open without a key: signed, and good for a bounded time.

OpenAI's clients fetch the ``url`` of an image bare. The signature (HMAC-SHA256) covers the picture, what it is turned
into, and the time until which the link counts; nothing of it is kept.
"""

from __future__ import annotations

import time
from urllib.parse import urlencode
from uuid import UUID

from msgspec import Struct

from api.signing import Signer
from safelight.config import Settings

PATH = "/v1/linked-images"


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
    """Signs links, and tells those that it signed."""

    def __init__(self, settings: Settings) -> None:
        self._signer = Signer(settings)
        self._lifetime_s = settings.server.url_lifetime_s

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
        return f"{PATH}/{job_id}/{index}?{urlencode({**query, 'signature': await self._signer.sign(link.text)})}"

    async def counts(self, link: Link, signature: str) -> bool:
        """True for a signature of ours on a link whose time has not passed. Takes the same time for any other."""
        return await self._signer.signed(link.text, signature) and time.time() < link.expires
