"""Whose word counts for who a client is."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

from safelight.cli.server.http import HttpServer, address_of, bind
from safelight.config import ServerSettings


async def who(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """An application that answers whom it takes the client for."""
    if scope["type"] == "lifespan":
        for kind in ("startup", "shutdown"):
            await receive()
            done: Any = {"type": f"lifespan.{kind}.complete"}
            await send(done)
    elif scope["type"] == "http":
        client = scope["client"] or ("", 0)
        text = f"{scope['scheme']} {client[0]}".encode()
        await send({"type": "http.response.start", "status": 200, "headers": [], "trailers": False})
        await send({"type": "http.response.body", "body": text, "more_body": False})


@pytest.mark.parametrize(
    ("proxies", "client"),
    [
        (("127.0.0.1",), "https 203.0.113.7"),
        (("127.0.0.0/8", "10.0.0.0/8"), "https 203.0.113.7"),
        (("192.0.2.1",), "http 127.0.0.1"),
        ((), "http 127.0.0.1"),
    ],
)
def test_the_word_of_a_proxy_counts_where_it_is_named(
    proxies: tuple[str, ...], client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nobody else's, whatever the environment says."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    listener = bind("127.0.0.1", 0)
    server = HttpServer(who, listener, ServerSettings(trusted_proxies=proxies), lambda: None)
    server.start()
    try:
        headers = {"X-Forwarded-For": "198.51.100.1, 203.0.113.7", "X-Forwarded-Proto": "https"}
        assert httpx.get(address_of(listener), headers=headers, timeout=10).text == client
    finally:
        server.stop()
