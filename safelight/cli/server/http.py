"""The API behind a socket, on a thread and event loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn

from safelight.cli.exits import StartError
from safelight.config import ServerSettings

_START_LIMIT_S = 60.0


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to ``host`` and ``port`` (0: any free one). Raises StartError, which says what to do."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(2048)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise StartError(
            f"can't listen on {host}:{port}: {error.strerror or error}",
            "choose another address: --host, --port, the environment's PORT, or [server] in the settings",
        ) from error
    return listener


def address_of(listener: socket.socket, settings: ServerSettings | None = None) -> str:
    """The URL under which a browser on this machine finds it."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    scheme = "https" if settings is not None and settings.tls_cert else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class HttpServer:
    """uvicorn on a thread of its own, so that the main thread is free for signals."""

    def __init__(
        self, app: Any, listener: socket.socket, settings: ServerSettings, end_streams: Callable[[], None]
    ) -> None:
        """``end_streams`` is called on the server's event loop when it stops: streams would outlast any grace."""
        self._listener = listener
        self._end_streams = end_streams
        self._grace = settings.shutdown_grace_s
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            forwarded_allow_ips=list(settings.trusted_proxies),
            timeout_graceful_shutdown=max(1, round(self._grace)),
            ssl_certfile=settings.tls_cert or None,
            ssl_keyfile=settings.tls_key or None,
        )
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._run, name="api", daemon=True)

    def start(self) -> None:
        """Returns once requests are answered. Raises StartError."""
        self._thread.start()
        if not self._server.settled.wait(_START_LIMIT_S) or not self._server.started:
            raise StartError("the API did not start; the log says why")

    def stop(self) -> None:
        """Finish the requests in flight, within the grace; streams are ended."""
        self._server.should_exit = True
        if self._server.loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: there are no streams any more
                self._server.loop.call_soon_threadsafe(self._end_streams)
        if self._thread.ident is not None:
            self._thread.join(self._grace + 10)
        self._listener.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._listener])
        finally:
            self._server.settled.set()


class _Server(uvicorn.Server):
    """Tells when it has started."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.settled = threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)
        # What is there by now stays: a tenth of a submit's time went into looking through it again and again.
        gc.collect()
        gc.freeze()
        self.settled.set()
