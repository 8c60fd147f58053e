"""The ``.proto`` file for clients, written from the descriptor that the server speaks."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from api.grpc.describing import STRUCT
from api.grpc.numbers import MESSAGES

_OURS = {struct.__module__ for struct in MESSAGES.values()}
_HEAD = """\
// Safelight over gRPC. Made by  safelight grpc proto  from the structs of the REST API: docs/api.md explains fields,
// docs/grpc.md keys, errors and what is sent as metadata. Decimals, ids and enumerations are strings; instants are
// RFC 3339 strings; an optional field that is not set gets the model's default in a request, and is null in REST.
syntax = "proto3";
"""


def proto_text(described: FileDescriptorProto) -> str:
    """The file as protoc reads it."""
    lines = [_HEAD, f"package {described.package};", "", *(f'import "{name}";' for name in described.dependency), ""]
    for service in described.service:
        lines.append(f"service {service.name} {{")
        for method in service.method:
            streams = "stream " if method.server_streaming else ""
            takes, gives = _short(method.input_type), _short(method.output_type)
            lines.append(f"  rpc {method.name}({takes}) returns ({streams}{gives});")
        lines += ["}", ""]
    for message in described.message_type:
        lines += [*_comment(message.name), *_message(message), ""]
    return "\n".join(lines)


def _message(message: DescriptorProto) -> Iterator[str]:
    entries = {entry.name: entry for entry in message.nested_type}
    yield f"message {message.name} {{"
    for reserved, name in zip(message.reserved_range, message.reserved_name, strict=True):
        yield f"  reserved {reserved.start};"
        yield f'  reserved "{name}";'
    for field in message.field:
        yield f"  {_kind(field, entries)} {field.name} = {field.number};"
    yield "}"


def _kind(field: FieldDescriptorProto, entries: dict[str, DescriptorProto]) -> str:
    entry = entries.get(field.type_name.rpartition(".")[2])
    if entry is not None:
        key, value = (_type(part) for part in entry.field)
        return f"map<{key}, {value}>"
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {_type(field)}"
    return f"optional {_type(field)}" if field.proto3_optional else _type(field)


def _type(field: FieldDescriptorProto) -> str:
    if field.type == FieldDescriptorProto.TYPE_MESSAGE:
        return _short(field.type_name)
    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def _short(name: str) -> str:
    return name.removeprefix(".") if name == STRUCT else name.rpartition(".")[2]


def _comment(message: str) -> list[str]:
    """What the struct says of itself, and before that what it says of the one that it adds to."""
    known = [
        kind for kind in reversed(MESSAGES[message].__mro__) if "__doc__" in vars(kind) and kind.__module__ in _OURS
    ]
    said = "\n\n".join(inspect.cleandoc(str(kind.__doc__)) for kind in known)
    return [f"// {line}".rstrip() for line in said.replace("``", "").splitlines()]
