"""The proxy does to connections what it says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.chaos.proxy import Proxy, to_port


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(client,), daemon=True).start()

    def answer(client: socket.socket) -> None:
        with client, suppress(ConnectionResetError):
            while data := client.recv(100):
                client.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    yield int(listener.getsockname()[1])
    listener.close()


@pytest.fixture
def proxy(echo: int) -> Iterator[Proxy]:
    """A proxy in front of it."""
    proxy = Proxy(to_port(echo))
    proxy.start()
    yield proxy
    proxy.stop()


def dial(proxy: Proxy) -> socket.socket:
    """A connection through the proxy."""
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=10)


def listen(proxy: Proxy) -> bytes:
    """What a new connection through the proxy is sent without asking."""
    with dial(proxy) as client:
        return client.recv(100)


def test_passes_and_delays(proxy: Proxy) -> None:
    """What goes in comes out."""
    with dial(proxy) as client:
        client.sendall(b"one")
        assert client.recv(100) == b"one"
        proxy.delay(0.01)
        client.sendall(b"two")
        assert client.recv(100) == b"two"


def test_cuts_and_refuses(proxy: Proxy) -> None:
    """Open connections are reset, new ones too while it refuses."""
    with dial(proxy) as client:
        client.sendall(b"one")
        client.recv(100)
        assert proxy.cut() == 1
        with pytest.raises(ConnectionResetError):
            client.recv(100)
    proxy.refuse()
    with pytest.raises(ConnectionResetError):
        listen(proxy)
    proxy.restore()
    with dial(proxy) as client:
        client.sendall(b"two")
        assert client.recv(100) == b"two"


def test_holds_and_lets_go(proxy: Proxy) -> None:
    """Nothing comes through, and all of it afterwards."""
    with dial(proxy) as client:
        client.sendall(b"one")
        client.recv(100)
        proxy.hold()
        client.sendall(b"two")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(100)
        proxy.restore()
        client.settimeout(10)
        assert client.recv(100) == b"two"
