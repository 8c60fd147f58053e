"""Reflection on loopback: by the client that comes with it."""

from __future__ import annotations

import threading

import grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from api.grpc.describing import FILE, SERVICE, file_descriptor
from tests.api.grpc.client import Caller


def test_services_and_messages_are_told(calls: Caller) -> None:
    """Enough for tools such as grpcurl to speak with the server."""
    found: list[object] = []

    def look() -> None:  # a client without an event loop
        with grpc.insecure_channel(calls.target) as channel:
            database = ProtoReflectionDescriptorDatabase(channel)
            found.append(set(database.get_services()))
            found.append(database.FindFileContainingSymbol(SERVICE))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(20)
    services, described = found
    assert services == {SERVICE, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}
    assert described == file_descriptor()
    assert file_descriptor().name == FILE
