"""The gRPC server, in the event loop of the HTTP server and over the same application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
from litestar import Litestar
from litestar.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from api.grpc.describing import SERVICE
from api.grpc.messages import described
from api.grpc.problems import Refusal, refusal_of
from api.grpc.requests import answer_to
from api.grpc.service import Calls, Context, KeysFirst, ended, handlers_of
from api.services import Services
from safelight.config import ConfigError, ServerSettings
from safelight.telemetry import get_logger

_log = get_logger(__name__)

_WATCHERS = 64  # of the service's health: anybody may ask
_LOOK_S = 60  # a conversation with reflection
_IDENTITY = 1  # the only encoding of messages: a compressed one may unfold to a thousand times its size


class GrpcServer:
    """Answers calls from ``start`` until ``leave``, which lets those under way end within the grace."""

    def __init__(self, app: Litestar, services: Services) -> None:
        """Nothing listens before ``start``."""
        self._settings = services.settings.server
        self._health = _Health()
        trusted = list(self._settings.trusted_proxies)
        inner: Any = ProxyHeadersMiddleware(app, trusted_hosts=trusted)  # type: ignore[arg-type]
        calls = Calls(inner, secure=bool(self._settings.tls_cert))
        self._server = grpc.aio.server(
            interceptors=[KeysFirst(services, calls)],
            options=_options(self._settings),
            maximum_concurrent_rpcs=self._settings.grpc_max_calls,
        )
        described()
        self._server.add_generic_rpc_handlers((handlers_of(calls),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflects: Any = reflection_pb2_grpc.add_ServerReflectionServicer_to_server
        reflects(_Reflection(names, calls, inner), self._server)
        self._leaving: asyncio.Task[None] | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen. Raises ConfigError."""
        host, port = self._settings.host, self._settings.grpc_port
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if self._settings.tls_cert:
                self.port = self._server.add_secure_port(place, _credentials(self._settings))
            else:
                self.port = self._server.add_insecure_port(place)
        except RuntimeError as error:
            raise ConfigError(f"[server] grpc_port: can't listen on {place}: is the port taken?") from error
        await self._health.set(SERVICE, health_pb2.HealthCheckResponse.SERVING)
        await self._health.set("", health_pb2.HealthCheckResponse.SERVING)
        await self._server.start()
        _log.info("gRPC served", action="grpc.served", host=host, port=self.port, tls=bool(self._settings.tls_cert))

    def leave(self) -> None:
        """Take no further calls, and end when those under way have."""
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().create_task(self._leave(), name="grpc-leave")

    async def stop(self) -> None:
        """Leave, and wait until that is done."""
        self.leave()
        if self._leaving is not None:
            await self._leaving

    async def _leave(self) -> None:
        await self._health.enter_graceful_shutdown()
        await self._server.stop(self._settings.shutdown_grace_s)


class _Health(health.aio.HealthServicer):
    """The standard service, with a bound to those that watch it."""

    def __init__(self) -> None:
        super().__init__()
        self._watchers = 0

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802 - the call's name
        if self._watchers >= _WATCHERS:
            await ended(context, Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many watch already: use Check", ()))
        self._watchers += 1
        try:
            await super().Watch(request, context)
        finally:
            self._watchers -= 1


class _Reflection(reflection.aio.ReflectionServicer):
    """Open to those to whom ``/docs`` is."""

    def __init__(self, names: tuple[str, ...], calls: Calls, app: ASGIApp) -> None:
        super().__init__(names)
        self._calls = calls
        self._app: Any = app

    async def ServerReflectionInfo(  # type: ignore[override]  # noqa: N802 - the stubs take it for a coroutine
        self, request_iterator: Any, unused_context: Context
    ) -> AsyncIterator[Any]:
        rpc = f"/{reflection.SERVICE_NAME}/ServerReflectionInfo"
        call = self._calls.call_of("", unused_context, "GET", "/docs", rpc=rpc)
        answer = await answer_to(self._app, call)
        if answer.status >= 400:
            await ended(unused_context, refusal_of(answer))
        async with asyncio.timeout(_LOOK_S):
            responses: Any = super().ServerReflectionInfo(request_iterator, unused_context)
            async for response in responses:
                yield response


def _options(settings: ServerSettings) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_receive_message_length", settings.grpc_message_limit_bytes),
        ("grpc.max_concurrent_streams", settings.grpc_max_calls),
        ("grpc.compression_enabled_algorithms_bitset", _IDENTITY),
        ("grpc.so_reuseport", 0),  # a port that is taken is an error
        ("grpc.keepalive_time_ms", 30_000),  # who vanished frees its place
        ("grpc.keepalive_timeout_ms", 20_000),
    ]


def _credentials(settings: ServerSettings) -> grpc.ServerCredentials:
    """Raises ConfigError."""
    try:
        key, cert = Path(settings.tls_key).read_bytes(), Path(settings.tls_cert).read_bytes()
    except OSError as error:
        raise ConfigError(f"[server] tls_cert, tls_key: {error.filename}: {error.strerror}") from error
    return grpc.ssl_server_credentials([(key, cert)])
