"""Reads answers over HTTP: bounded bytes, no redirects, and errors that say what is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx

from actors.providers.orders import ProviderOutputError, ProviderUnreachableError

_CONNECT_S = 10.0
_CHUNK = 65_536


class Answer(NamedTuple):
    """An answer, read to its end."""

    status: int
    headers: httpx.Headers
    body: bytes


class HttpClient:
    """One provider's connections. Belongs to one event loop."""

    def __init__(self, name: str, headers: Mapping[str, str], connections: int, timeout_s: float) -> None:
        """``timeout_s`` is how long an answer may keep silent."""
        self._name = name
        self._http = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s), pool=None),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            follow_redirects=False,
        )

    async def send(self, method: str, url: str, most_bytes: int, **request: Any) -> Answer:
        """The answer to a request. Raises ProviderUnreachableError, ProviderOutputError."""
        try:
            async with self._http.stream(method, url, **request) as response:
                body = bytearray()
                async for chunk in response.aiter_bytes(_CHUNK):
                    body += chunk
                    if len(body) > most_bytes:
                        words = f"the provider of {self._name} answered with more than {most_bytes} bytes"
                        raise ProviderOutputError(words)
                return Answer(response.status_code, response.headers, bytes(body))
        except httpx.HTTPError as error:
            words = f"the provider of {self._name} can't be reached: {type(error).__name__}"
            raise ProviderUnreachableError(words) from error

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()
