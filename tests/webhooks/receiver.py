"""A real HTTP server that receives webhooks, and answers as it is told."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

LIMIT_S = 20.0


class Received(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Answers 204, or in order what ``answers`` holds: a status, or a status with headers. Status 0 hangs up."""

    def __init__(self) -> None:
        self.answers: list[int | tuple[int, dict[str, str]]] = []
        self.received: list[Received] = []
        self.url = ""
        self._arrived = threading.Condition()
        self._open = threading.Event()
        self._open.set()

    def hold(self) -> None:
        """Answer nothing from now on."""
        self._open.clear()

    def let_go(self) -> None:
        """Answer again."""
        self._open.set()

    def note(self, received: Received) -> tuple[int, dict[str, str]]:
        """Keep a request; what to answer."""
        with self._arrived:
            self.received.append(received)
            answer = self.answers.pop(0) if self.answers else 204
            self._arrived.notify_all()
        self._open.wait(LIMIT_S)
        return answer if isinstance(answer, tuple) else (answer, {})

    def wait(self, count: int = 1) -> list[Received]:
        """All requests, once there are ``count``."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.received) >= count, LIMIT_S), self.received
            return list(self.received)


def certificate(folder: Path, name: str) -> Path:
    """A certificate for ``name`` that signs itself, with its key, in one file of the folder."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "certificate.pem").write_bytes(made.public_bytes(Encoding.PEM))
    whole = folder / "whole.pem"
    whole.write_bytes(key.private_bytes(*form) + made.public_bytes(Encoding.PEM))
    return whole


@contextmanager
def receiver(port: int = 0, certificate: Path | None = None) -> Iterator[Receiver]:
    """A receiver on loopback; with TLS where there is a certificate."""
    here = Receiver()

    class Handler(BaseHTTPRequestHandler):
        """Hands requests to the receiver."""

        def do_POST(self) -> None:
            """Read it, and answer."""
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more = here.note(Received(self.path, headers, body))
            if status == 0:
                self.connection.close()
                return
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    here.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield here
    finally:
        server.shutdown()
        server.server_close()
        thread.join(LIMIT_S)
