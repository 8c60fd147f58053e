"""The message classes, and their way to JSON and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from google.protobuf import struct_pb2
from google.protobuf.descriptor import FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pool import Default, DescriptorPool
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from api.grpc.describing import FILE, file_descriptor
from api.grpc.numbers import fields_of
from api.problems import invalid

_STRUCT = struct_pb2.Struct.DESCRIPTOR.full_name


@cache
def described() -> FileDescriptor:
    """The file of all messages, in protobuf's default pool, where reflection looks for it."""
    pool: DescriptorPool = Default()
    pool.Add(file_descriptor())
    return pool.FindFileByName(FILE)


@cache
def message_class(name: str) -> type[Message]:
    """The class of a message by its name in ``numbers.MESSAGES``."""
    return GetMessageClass(described().message_types_by_name[name])


def plain(message: Message) -> dict[str, Any]:
    """A message as the JSON object that REST takes: what isn't set isn't there.

    Raises ProblemError where two fields are set that stand for the same one, and to numbers that JSON doesn't have.
    """
    names = fields_of(message.DESCRIPTOR.name)
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        name = names.get(field.name, field.name)
        if name in found:
            raise invalid(name, f"{name} and {field.name} say the same in two ways: set one of them")
        found[name] = _plain(field, value)
        if not _finite(found[name]):
            raise invalid(name, f"{name} must be a finite number")
    return found


def filled(name: str, values: Mapping[str, Any]) -> Message:
    """The message of that name out of a JSON object; null is what isn't set."""
    message = message_class(name)()
    _fill(message, values)
    return message


def _plain(field: FieldDescriptor, value: Any) -> Any:
    if _is_map(field):
        return dict(value)
    if field.is_repeated:
        return [plain(one) for one in value] if field.message_type else list(value)
    return plain(value) if field.message_type else value


def _finite(value: Any) -> bool:
    values = value.values() if isinstance(value, dict) else (value,)
    return all(math.isfinite(one) for one in values if isinstance(one, float))


def _fill(message: Message, values: Mapping[str, Any]) -> None:
    fields: Mapping[str, Any] = message.DESCRIPTOR.fields_by_name
    for name, field in fields.items():
        value = values.get(name)
        if value is None:
            continue
        if _is_map(field):
            getattr(message, name).update(value)
        elif field.is_repeated:
            _extend(getattr(message, name), field, value)
        elif field.message_type is None:
            setattr(message, name, value)
        else:
            part = getattr(message, name)
            part.SetInParent()
            _fill_part(part, value)


def _extend(repeated: Any, field: FieldDescriptor, values: Any) -> None:
    if field.message_type is None:
        repeated.extend(values)
    for value in values if field.message_type else ():
        _fill(repeated.add(), value)


def _fill_part(part: Message, value: Mapping[str, Any]) -> None:
    if part.DESCRIPTOR.full_name == _STRUCT:
        ParseDict(dict(value), part)
    else:
        _fill(part, value)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)
