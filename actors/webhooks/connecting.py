"""Connections to receivers: each name is resolved once, and every address is looked at before one is connected to."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

import httpcore

from jobstore.webhooks.addresses import Address, AddressRules

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]

_TURN_S = 2.0
_MOST_ADDRESSES = 4  # that are tried, so that each has a fair part of the time
_LEAST_S = 0.001


class ResolverBusyError(Exception):
    """All threads wait for name servers: nobody was asked for the name."""


class SystemResolver:
    """Asks the system. It blocks, so it has threads of its own: nothing else waits for a slow name server."""

    def __init__(self, threads: int, turn_s: float = _TURN_S) -> None:
        """``turn_s`` is how many seconds a question waits for a thread."""
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="webhook-names")
        self._free = asyncio.Semaphore(threads)
        self._turn_s = turn_s

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        """All addresses of a host. Raises OSError, ResolverBusyError."""
        try:
            async with asyncio.timeout(self._turn_s):
                await self._free.acquire()
        except TimeoutError:
            raise ResolverBusyError("not tried: too many names wait for slow name servers") from None
        loop = asyncio.get_running_loop()

        def over(_asked: Future[list[Any]]) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._free.release)

        asked = self._threads.submit(_resolved, host, port)
        asked.add_done_callback(over)  # the thread's end, and not that of a question that was given up
        found = await asyncio.wrap_future(asked)
        return list(dict.fromkeys(ip_address(place[4][0]) for place in found))

    def close(self) -> None:
        """Take no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _resolved(host: str, port: int) -> list[Any]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _in_turn(addresses: Sequence[Address]) -> list[Address]:
    """The addresses to try, those of both families by turns (RFC 8305, section 4): one may be dead as a whole."""
    first = addresses[0].version if addresses else 6
    families = [[address for address in addresses if (address.version == first) is same] for same in (True, False)]
    turns = itertools.chain.from_iterable(itertools.zip_longest(*families))
    return [address for address in turns if address is not None][:_MOST_ADDRESSES]


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Connects to nothing but what the rules allow.

    The address that was looked at is the one connected to: a name that points elsewhere a moment later gains nothing.
    TLS and the Host header go by the name all the same, as httpcore has them from the URL.
    """

    def __init__(self, rules: AddressRules, resolve: Resolve) -> None:
        self._rules = rules
        self._resolve = resolve
        self._below = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection, to whichever address first answers; they share the time evenly.

        Raises RefusedAddressError where any address of the host is refused, ResolverBusyError, ConnectError,
        ConnectTimeout.
        """
        try:
            addresses = await self._resolve(host, port)
        except OSError as error:
            raise httpcore.ConnectError("its name can't be resolved") from error
        for address in addresses:
            self._rules.check_address(address)
        failure: Exception = httpcore.ConnectError("its name has no address")
        chosen, clock = _in_turn(addresses), asyncio.get_running_loop().time
        end = None if timeout is None else clock() + timeout
        for index, address in enumerate(chosen):
            share = None if end is None else max(_LEAST_S, (end - clock()) / (len(chosen) - index))
            try:
                return await self._below.connect_tcp(str(address), port, share, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(
        self,
        path: str,  # noqa: ARG002 - httpcore's signature
        timeout: float | None = None,  # noqa: ARG002, ASYNC109
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,  # noqa: ARG002
    ) -> httpcore.AsyncNetworkStream:
        """Never."""
        raise httpcore.ConnectError("receivers have no socket files")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._below.sleep(seconds)
