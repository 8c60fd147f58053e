"""Sends one message to one receiver: one POST, no redirect, no proxy, no cookie; the answer's body stays unread."""

from __future__ import annotations

import asyncio
import ssl
from typing import NamedTuple

import httpcore
import httpx

from actors.webhooks.connecting import CheckedBackend, Resolve, ResolverBusyError, SystemResolver
from jobstore.webhooks.addresses import AddressRules, RefusedAddressError
from safelight.config import WebhookSettings

_CONNECT_S = 5.0
_THREADS_A_SLOT = 2  # names that hang outlive the tries that wanted them


class Answer(NamedTuple):
    """What a receiver said: its status, and its ``Retry-After``."""

    status: int
    retry_after: str


class SendError(Exception):
    """There was no answer; the message says why, for people, and holds no secret."""


class NotTriedError(SendError):
    """Nothing was tried, for want of room in this process."""


class Sender:
    """Belongs to the event loop that it is used on."""

    def __init__(self, settings: WebhookSettings, resolve: Resolve | None = None) -> None:
        """``resolve`` takes the place of the system's names."""
        self._timeout_s = settings.timeout_s
        self._connect_s = min(_CONNECT_S, settings.timeout_s)
        self._rules = AddressRules(settings)
        self._names = SystemResolver(_THREADS_A_SLOT * settings.slots)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=httpx.create_ssl_context(),
            max_connections=settings.slots,
            max_keepalive_connections=0,  # what was looked at long ago is not used again
            network_backend=CheckedBackend(self._rules, resolve or self._names),
        )

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> Answer:
        """The receiver's answer. Raises SendError, NotTriedError, within the time limit of the settings."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._post(url, headers, body)
        except ResolverBusyError as error:
            raise NotTriedError(str(error)) from error
        except RefusedAddressError as error:
            raise SendError(f"the address is refused: {error}") from error
        except httpcore.ConnectTimeout as error:
            raise SendError(f"no connection within {self._connect_s:g} s") from error
        except (TimeoutError, httpcore.TimeoutException) as error:
            raise SendError(f"no answer within {self._timeout_s:g} s") from error
        except (httpcore.NetworkError, httpcore.ProtocolError, ssl.SSLError, OSError) as error:
            raise SendError(_reason(error)) from error
        except Exception as error:  # names that can't be written in DNS, and whatever else a client can think of
            raise SendError(f"no answer: {type(error).__name__}") from error

    async def _post(self, url: str, headers: dict[str, str], body: bytes) -> Answer:
        target = self._rules.check_url(url)
        limits = {"connect": self._connect_s, "read": None, "write": None, "pool": None}
        async with self._pool.stream(
            "POST", target.url, headers=[*headers.items()], content=body, extensions={"timeout": limits}
        ) as response:
            found = {name.lower(): value for name, value in response.headers}
            return Answer(response.status, found.get(b"retry-after", b"").decode("latin-1"))

    async def close(self) -> None:
        """Break off what is under way."""
        await self._pool.aclose()
        self._names.close()


def _reason(error: BaseException) -> str:
    """What broke, in a line of a bounded length."""
    text = str(error) or type(error).__name__
    return f"no answer: {text}"[:300]
