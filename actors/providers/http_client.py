"""Reads answers over HTTP: bounded bytes, nothing unpacked, no redirects, and errors that say what is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx

from actors.providers.orders import ProviderOutputError, ProviderUnreachableError

_CONNECT_S = 10.0
_CHUNK = 65_536
_REFUSAL_BYTES = 1_000_000  # read of an answer that holds no pictures; the rest says no more


class Answer(NamedTuple):
    """An answer: of one with status 200 the whole body, of others what its beginning tells."""

    status: int
    headers: httpx.Headers
    body: bytes


class HttpClient:
    """One provider's connections. Belongs to one event loop."""

    def __init__(self, name: str, headers: Mapping[str, str], connections: int, timeout_s: float) -> None:
        """``timeout_s`` is how long an answer may keep silent."""
        self._name = name
        self._http = httpx.AsyncClient(
            # A few kilobytes may unpack to gigabytes, and pictures don't get smaller.
            headers={**headers, "accept-encoding": "identity"},
            timeout=httpx.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s), pool=None),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            follow_redirects=False,
        )

    async def send(self, method: str, url: str, most_bytes: int, **request: Any) -> Answer:
        """The answer to a request. Raises ProviderUnreachableError, ProviderOutputError."""
        try:
            async with self._http.stream(method, url, **request) as response:
                return Answer(response.status_code, response.headers, await self._body(response, most_bytes))
        except httpx.InvalidURL as error:  # such as a provider's own Location may be
            words = f"the provider of {self._name} can't be asked at an address that is none"
            raise ProviderOutputError(words) from error
        except httpx.HTTPError as error:
            words = f"the provider of {self._name} can't be reached: {type(error).__name__}"
            raise ProviderUnreachableError(words) from error

    async def _body(self, response: httpx.Response, most_bytes: int) -> bytes:
        whole = response.status_code == 200
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in ("", "identity"):
            if whole:
                words = f"the provider of {self._name} answered with a Content-Encoding, though asked for none"
                raise ProviderOutputError(words)
            return b""
        most = most_bytes if whole else min(most_bytes, _REFUSAL_BYTES)
        body = bytearray()
        async for chunk in response.aiter_raw(_CHUNK):
            body += chunk
            if len(body) > most and whole:
                raise ProviderOutputError(f"the provider of {self._name} answered with more than {most} bytes")
            if len(body) > most:
                return bytes(body[:most])
        return bytes(body)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()
