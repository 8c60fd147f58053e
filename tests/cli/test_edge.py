"""TLS by the server itself, and what the settings of its edge may get wrong."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from safelight.cli.client.http import Client
from safelight.cli.exits import StartError
from safelight.cli.server import edge
from safelight.cli.server.edge import check_edge
from safelight.cli.server.first_picture import trust_in
from safelight.cli.server.http import HttpServer, address_of, bind
from safelight.config import ServerSettings
from tests.certificates import Certificate, self_signed
from tests.cli.test_proxies import who


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Of this machine."""
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def url(certificate: Certificate) -> Iterator[str]:
    """A server with it."""
    settings = ServerSettings(tls_cert=str(certificate.cert), tls_key=str(certificate.key))
    check_edge(settings)
    listener = bind("127.0.0.1", 0)
    server = HttpServer(who, listener, settings, lambda: None)
    server.start()
    yield address_of(listener, settings)
    server.stop()


def test_answers_come_over_tls(url: str, certificate: Certificate) -> None:
    """To who trusts the certificate; there is no plain HTTP beside."""
    trust = ssl.create_default_context(cafile=certificate.cert)
    assert url.startswith("https://127.0.0.1:")
    assert httpx.get(url, verify=trust).text == "https 127.0.0.1"
    with pytest.raises(httpx.ConnectError, match="self-signed"):
        httpx.get(url)
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(url.replace("https", "http"))


def test_up_trusts_its_own_certificate_alone(url: str, certificate: Certificate, tmp_path: Path) -> None:
    """For the first picture: whatever name is in it; no other one."""
    with Client(url, None, trust_in(str(certificate.cert))) as client:
        assert client.http.get("/").text == "https 127.0.0.1"
    other = self_signed(tmp_path, "other")
    with Client(url, None, trust_in(str(other.cert))) as client, pytest.raises(httpx.ConnectError):
        client.http.get("/")
    assert trust_in("") is True


def test_commands_trust_what_the_environment_names(
    url: str, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the documentation says."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.cert))
    with Client(url.replace("127.0.0.1", "localhost")) as client:
        assert client.http.get("/").text.startswith("https ")


def test_a_certificate_that_cannot_be_used_is_told(certificate: Certificate, tmp_path: Path) -> None:
    """Before anything starts, by the setting and the file."""
    other = self_signed(tmp_path, "other")
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\n")
    cert, key = str(certificate.cert), str(certificate.key)
    for files, words in (
        ((str(tmp_path / "none.crt"), key), "tls_cert: .*none.crt: No such file"),
        ((cert, str(tmp_path / "none.key")), "tls_key: .*none.key: No such file"),
        ((cert, str(tmp_path)), "tls_key: .*: Is a directory"),
        ((cert, str(other.key)), "tls_key: .*other.key belongs to another certificate"),
        ((str(broken), key), "tls_key: .* can't be used with the certificate"),
    ):
        with pytest.raises(StartError, match=words):
            check_edge(ServerSettings(tls_cert=files[0], tls_key=files[1]))
    with pytest.raises(ValueError, match="tls_cert and tls_key go together"):
        ServerSettings(tls_cert=cert)


def test_what_grpc_needs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is missing, and how to get it; a port that is taken."""
    check_edge(ServerSettings(grpc_port=0))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=f"gRPC can't listen on 127.0.0.1:{port}"):
            check_edge(ServerSettings(grpc_port=port))
    monkeypatch.setattr(edge, "_GRPC", ("grpc_that_is_not_there.at_all",))
    check_edge(ServerSettings())
    with pytest.raises(StartError, match="grpc_port is set, and grpc_that_is_not_there") as caught:
        check_edge(ServerSettings(grpc_port=0))
    assert "pip install 'safelight[grpc]'" in str(caught.value.hint)
