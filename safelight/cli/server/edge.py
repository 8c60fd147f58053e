"""What the settings ask of the server's edge, TLS and gRPC, looked at before anything is started."""

from __future__ import annotations

import ssl
from importlib.util import find_spec
from pathlib import Path

from safelight.cli.exits import StartError
from safelight.config import ServerSettings

_GRPC = ("grpc", "grpc_health", "grpc_reflection", "google.protobuf")


def check_edge(server: ServerSettings) -> None:
    """Raise StartError where a certificate can't be used, or what gRPC needs isn't there."""
    if server.tls_cert:
        check_certificate(server.tls_cert, server.tls_key)
    if server.grpc_port != "off":
        check_grpc(server, server.grpc_port)


def check_certificate(cert: str, key: str) -> None:
    """Raise StartError unless both files can be read and belong together."""
    for setting, file in (("tls_cert", cert), ("tls_key", key)):
        try:
            Path(file).read_bytes()
        except OSError as error:
            hint = f"[server] {setting} is the path of a PEM file, from the settings' folder"
            raise StartError(f"{setting}: {file}: {error.strerror}", hint) from error
    try:
        # An encrypted key would be asked for at the terminal: no service has one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=lambda: b"")
    except ssl.SSLError as error:
        wrong = "belongs to another certificate" if "MISMATCH" in str(error) else "can't be used with the certificate"
        hint = f"{cert} must be the chain in PEM, its own certificate first, and {key} that one's key, unencrypted"
        raise StartError(f"tls_key: {key} {wrong}", hint) from error


def check_grpc(server: ServerSettings, port: int) -> None:
    """Raise StartError where a package is missing, or the port is taken."""
    from safelight.cli.server.http import bind

    missing = [name for name in _GRPC if not _is_there(name)]
    if missing:
        what = f"[server] grpc_port is set, and {missing[0]} is not installed"
        raise StartError(what, "pip install 'safelight[grpc]', or set grpc_port = \"off\"")
    try:
        bind(server.host, port).close()
    except StartError as error:
        raise StartError(f"gRPC {error}", "choose another [server] grpc_port") from error


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False
