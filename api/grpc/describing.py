"""From msgspec's structs to a protobuf file descriptor: the requests and answers of REST, described once.

Text, ids, instants (RFC 3339), decimals and enumerations are strings, as in JSON; integers are int64, numbers double.
What may be absent is ``optional``, and stays absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from msgspec import inspect

from api.grpc.numbers import MESSAGES, NUMBERS, RETIRED, VARIANTS

PACKAGE = "safelight.v1"
FILE = "safelight/v1/safelight.proto"
SERVICE = f"{PACKAGE}.Safelight"
STRUCT = ".google.protobuf.Struct"
METHODS: Mapping[str, tuple[str, str, bool]] = {
    "Submit": ("SubmitRequest", "Job", False),
    "Get": ("GetRequest", "Job", False),
    "Cancel": ("CancelRequest", "Job", False),
    "Watch": ("WatchRequest", "WatchEvent", True),
    "ListModels": ("ListModelsRequest", "ModelList", False),
}
"""By name: what it takes, what it answers, and whether with a stream of these."""

_Field = FieldDescriptorProto
_SCALARS: Mapping[type[inspect.Type], FieldDescriptorProto.Type.ValueType] = {
    inspect.StrType: _Field.TYPE_STRING,
    inspect.UUIDType: _Field.TYPE_STRING,
    inspect.DateTimeType: _Field.TYPE_STRING,
    inspect.EnumType: _Field.TYPE_STRING,
    inspect.LiteralType: _Field.TYPE_STRING,
    inspect.IntType: _Field.TYPE_INT64,
    inspect.FloatType: _Field.TYPE_DOUBLE,
    inspect.BoolType: _Field.TYPE_BOOL,
}
_LISTS = (inspect.ListType, inspect.VarTupleType)


class DescriptionError(Exception):
    """A struct has a field that can't be described; the message says what to do about it."""


class _Shape(NamedTuple):
    """A field of a message to be, before it has a number. Where ``optional``, absence differs from any value."""

    name: str
    kind: inspect.Type
    optional: bool


def file_descriptor() -> FileDescriptorProto:
    """The whole of it. Raises DescriptionError where the structs and the table of numbers have parted."""
    described = FileDescriptorProto(name=FILE, package=PACKAGE, syntax="proto3")
    described.dependency.append("google/protobuf/struct.proto")
    for name in MESSAGES:
        described.message_type.append(_message(name))
    service = described.service.add(name=SERVICE.rpartition(".")[2])
    for method, (takes, gives, streams) in METHODS.items():
        service.method.add(
            name=method,
            input_type=f".{PACKAGE}.{takes}",
            output_type=f".{PACKAGE}.{gives}",
            **({"server_streaming": True} if streams else {}),
        )
    return described


def fields_in(message: str) -> tuple[inspect.Field, ...]:
    """The fields of a message's struct."""
    struct: Any = inspect.type_info(MESSAGES[message])
    fields: tuple[inspect.Field, ...] = struct.fields
    return fields


def shapes_of(message: str) -> Iterator[_Shape]:
    """The fields of a message as its struct has them."""
    for field in fields_in(message):
        whole = _bare(field.type)
        kinds = [_bare(kind) for kind in whole.types] if isinstance(whole, inspect.UnionType) else [whole]
        given = [kind for kind in kinds if not isinstance(kind, inspect.NoneType)]
        optional = len(given) < len(kinds) or not field.required
        variants = VARIANTS.get((message, field.name))
        if variants is not None:
            for name, wanted in variants.items():
                yield _Shape(name, next(kind for kind in given if isinstance(kind, wanted)), True)
        elif len(given) > 1:
            raise DescriptionError(f"{message}.{field.name} takes values of several kinds: name each in VARIANTS")
        elif not (isinstance(given[0], inspect.LiteralType) and len(given[0].values) == 1):
            yield _Shape(field.name, given[0], optional)


def _message(name: str) -> DescriptorProto:
    described = DescriptorProto(name=name)
    numbers = NUMBERS[name]
    shapes = list(shapes_of(name))
    if strangers := {shape.name for shape in shapes} ^ set(numbers):
        raise DescriptionError(
            f"{name}: {', '.join(sorted(strangers))}: a new field wants the next number in NUMBERS, "
            "one that is gone moves to RETIRED with its number"
        )
    for shape in shapes:
        _add(described, shape, numbers[shape.name])
    for retired, number in RETIRED.get(name, {}).items():
        described.reserved_range.add(start=number, end=number + 1)
        described.reserved_name.append(retired)
    return described


def _add(described: DescriptorProto, shape: _Shape, number: int) -> None:
    kind = shape.kind
    field = described.field.add(name=shape.name, number=number, label=_Field.LABEL_OPTIONAL)
    if isinstance(kind, _LISTS):
        field.label = _Field.LABEL_REPEATED
        _type(field, kind.item_type)
    elif isinstance(kind, inspect.DictType) and not isinstance(kind.value_type, inspect.AnyType):
        field.label = _Field.LABEL_REPEATED
        entry = _entry(shape.name, kind)
        described.nested_type.append(entry)
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{described.name}.{entry.name}"
    else:
        _type(field, kind)
        if shape.optional and field.type != _Field.TYPE_MESSAGE:  # a message knows whether it is there
            field.proto3_optional = True
            field.oneof_index = len(described.oneof_decl)  # as protoc does it: a "synthetic oneof" of one
            described.oneof_decl.add(name=f"_{shape.name}")


def _entry(name: str, kind: inspect.DictType) -> DescriptorProto:
    """The message that an entry of a map is, under the name that protoc would give it."""
    camel = "".join(part.capitalize() for part in name.split("_"))
    entry = DescriptorProto(name=f"{camel}Entry")
    entry.options.map_entry = True
    for number, (part, of) in enumerate((("key", kind.key_type), ("value", kind.value_type)), 1):
        _type(entry.field.add(name=part, number=number, label=_Field.LABEL_OPTIONAL), of)
    return entry


def _bare(kind: Any) -> Any:
    """A type without what is only said of it in JSON's schema."""
    return _bare(kind.type) if isinstance(kind, inspect.Metadata) else kind


def _type(field: FieldDescriptorProto, kind: Any) -> None:
    kind = _bare(kind)
    if isinstance(kind, inspect.StructType):
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{_name_of(kind.cls)}"
    elif isinstance(kind, inspect.DictType):
        field.type, field.type_name = _Field.TYPE_MESSAGE, STRUCT
    elif (scalar := _SCALARS.get(type(kind))) is not None:
        field.type = scalar
    else:
        raise DescriptionError(f"{field.name}: {type(kind).__name__} has no match in protobuf yet")


def _name_of(struct: type[Any]) -> str:
    for name, known in MESSAGES.items():
        if known is struct:
            return name
    raise DescriptionError(
        f"{struct.__name__} is part of a message: give it a name in MESSAGES, and its fields numbers"
    )
