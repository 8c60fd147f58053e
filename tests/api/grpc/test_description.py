"""The messages are the structs of REST: made from them, with numbers that stay."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc
from msgspec import Struct, inspect

from api.grpc import describing, numbers
from api.grpc.calls import WatchRequest
from api.grpc.describing import DescriptionError, file_descriptor, shapes_of
from api.grpc.messages import filled, message_class, plain
from api.grpc.numbers import MESSAGES, NUMBERS, RETIRED, VARIANTS
from api.grpc.text import proto_text
from api.schemas import JobSubmit, JobView

PUBLISHED = Path(__file__).resolve().parents[3] / "docs/safelight.proto"
RELEASED: dict[str, dict[str, int]] = {
    "SubmitRequest": {
        "prompt": 1, "model": 2, "negative_prompt": 3, "size": 4, "n": 5, "steps": 6, "guidance": 7, "adapters": 8,
        "adapter_names": 9, "seed": 10, "priority": 11, "cache": 12, "format": 13, "dimensions": 14,
        "deadline_s": 15, "start_deadline_s": 16, "start_at": 17, "previews": 18, "previews_every": 19,
        "webhook": 20, "webhook_url": 21, "image": 22, "mask": 23, "strength": 24,
    },
    "WebhookRequest": {"url": 1, "events": 2, "secret": 3},
    "GetRequest": {"id": 1},
    "CancelRequest": {"id": 1},
    "WatchRequest": {"id": 1, "last_event_id": 2},
    "ListModelsRequest": {},
    "Job": {
        "id": 1, "state": 2, "model": 3, "fallback_for": 4, "request": 5, "progress": 6, "queue": 7, "images": 8,
        "cache": 9, "cost": 10, "attempts": 11, "error": 12, "warnings": 13, "dimensions": 14,
        "cancel_requested": 15, "webhook": 16, "created_at": 17, "started_at": 18, "finished_at": 19,
        "canary_for": 20,
    },
    "JobRequest": {
        "model": 1, "prompt": 2, "negative_prompt": 3, "size": 4, "n": 5, "steps": 6, "guidance": 7, "adapters": 8,
        "seed": 9, "priority": 10, "cache": 11, "format": 12, "deadline_s": 13, "start_deadline_s": 14,
        "start_at": 15, "previews": 16, "image": 17, "mask": 18, "strength": 19,
    },
    "Progress": {"step": 1, "steps": 2, "fraction": 3},
    "Queue": {"position": 1, "eta_s": 2, "paused": 3},
    "Image": {"index": 1, "url": 2, "seed": 3, "width": 4, "height": 5, "sha256": 6},
    "Cost": {"currency": 1, "reserved": 2, "charged": 3, "gpu_seconds": 4},
    "JobError": {"code": 1, "message": 2},
    "Webhook": {"url": 1, "events": 2, "signed": 3},
    "WatchEvent": {"event": 1, "id": 2, "state": 3, "progress": 4, "preview": 5, "done": 6},
    "StateChange": {"state": 1, "at": 2, "attempt": 3, "reason": 4, "error": 5, "details": 6},
    "Preview": {"index": 1, "step": 2, "steps": 3, "image": 4},
    "ModelList": {"data": 1},
    "Model": {
        "id": 1, "aliases": 2, "created": 3, "owned_by": 4, "sizes": 5, "default_size": 6, "min_side": 7,
        "max_side": 8, "size_multiple": 9, "default_steps": 10, "default_guidance": 11, "negative_prompt": 12,
        "takes_images": 13, "adapters": 14, "adapter_weights": 15, "default": 16, "pricing": 17, "lossy": 18,
    },
    "Pricing": {
        "currency": 1, "per_image": 2, "per_megapixel": 3, "per_megapixel_step": 4, "per_adapter": 5, "minimum": 6,
        "sizes": 7, "gpu_hour": 8, "max_per_image": 9, "usual": 10,
    },
}  # fmt: skip
"""Numbers that clients have: what is written here is never changed, only added to."""


def without_json_names(described: FileDescriptorProto) -> FileDescriptorProto:
    """As it is before protoc adds what follows from the names."""

    def clear(message: DescriptorProto) -> None:
        for field in message.field:
            field.ClearField("json_name")
        for nested in message.nested_type:
            clear(nested)

    for message in described.message_type:
        clear(message)
    return described


def test_the_published_file_is_the_one_that_is_served() -> None:
    """Clients take it from there."""
    assert PUBLISHED.read_text() == proto_text(file_descriptor()), "run  safelight grpc proto > docs/safelight.proto"


def test_protoc_reads_the_published_file_as_what_is_served(tmp_path: Path) -> None:
    """To the last option: what clients generate speaks with the server."""
    out = tmp_path / "set"
    include = files("grpc_tools") / "_proto"
    assert (
        protoc.main(["", f"-I{PUBLISHED.parent}", f"-I{include}", f"--descriptor_set_out={out}", str(PUBLISHED)]) == 0
    )
    (read,) = FileDescriptorSet.FromString(out.read_bytes()).file
    read.name = describing.FILE
    assert without_json_names(read) == file_descriptor()


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_has_the_fields_of_its_struct(name: str) -> None:
    """All of them, and no other but the kinds of a field that takes several."""
    struct = inspect.type_info(MESSAGES[name])
    assert isinstance(struct, inspect.StructType)
    fields = {field.name for field in struct.fields if not isinstance(field.type, inspect.LiteralType)}
    own = {field.name for field in message_class(name).DESCRIPTOR.fields}
    back = numbers.fields_of(name)
    assert {back.get(field, field) for field in own} == fields
    assert own == {shape.name for shape in shapes_of(name)}


@pytest.mark.parametrize("name", MESSAGES)
def test_numbers_are_given_once_and_for_good(name: str) -> None:
    """No number is left out or used twice, and each that was released is still its field's, or reserved."""
    given = {**NUMBERS[name], **RETIRED.get(name, {})}
    assert sorted(given.values()) == list(range(1, len(given) + 1))
    assert len(given) == len(NUMBERS[name]) + len(RETIRED.get(name, {}))
    assert RELEASED[name].items() <= given.items()


def test_a_field_that_is_gone_is_reserved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In the descriptor and in the text, so that nobody takes its number or name again."""
    monkeypatch.setattr(describing, "RETIRED", {"GetRequest": {"name": 2}})
    described = file_descriptor()
    (message,) = (message for message in described.message_type if message.name == "GetRequest")
    assert [(part.start, part.end) for part in message.reserved_range] == [(2, 3)]
    assert '  reserved 2;\n  reserved "name";\n' in proto_text(described)


def test_a_field_without_a_number_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name."""

    class Grown(WatchRequest, frozen=True, kw_only=True):
        loud: bool = False

    monkeypatch.setattr(describing, "MESSAGES", {**MESSAGES, "WatchRequest": Grown})
    with pytest.raises(DescriptionError, match="WatchRequest: loud: a new field wants the next number"):
        file_descriptor()


@pytest.mark.parametrize(
    ("kind", "words"), [(int | str, "several kinds"), (bytes, "no match"), (tuple[JobView, ...], "")], ids=str
)
def test_a_kind_that_has_no_match_is_told(monkeypatch: pytest.MonkeyPatch, kind: Any, words: str) -> None:
    """Also by name; what has one is described."""
    odd = msgspec.defstruct("Odd", [("part", kind)])
    monkeypatch.setattr(describing, "MESSAGES", {**MESSAGES, "GetRequest": odd})
    monkeypatch.setattr(describing, "NUMBERS", {**NUMBERS, "GetRequest": {"part": 1}})
    if words:
        with pytest.raises(DescriptionError, match=f"part.*{words}"):
            file_descriptor()
    else:
        file_descriptor()


def sample(kind: inspect.Type) -> Any:
    """A value of a field, as JSON has it."""
    match kind:
        case inspect.UnionType(types=kinds):
            return sample(next(kind for kind in kinds if not isinstance(kind, inspect.NoneType)))
        case inspect.Metadata(type=bare):
            return sample(bare)
        case inspect.StructType(cls=struct):
            return sample_of(struct)
        case inspect.VarTupleType(item_type=inner) | inspect.ListType(item_type=inner):
            return [sample(inner)]
        case inspect.DictType(value_type=inner):
            return {"a": sample(inner)}
        case inspect.EnumType(cls=enum):
            return next(iter(enum)).value
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.IntType():
            return 7
        case inspect.FloatType():
            return 0.5
        case inspect.BoolType():
            return True
        case inspect.DateTimeType():
            return "2030-01-01T00:00:00Z"
        case inspect.UUIDType():
            return "01890000-0000-7000-8000-000000000000"
        case _:
            return "text"


def sample_of(struct: type[Struct]) -> dict[str, Any]:
    """A whole struct, every field with a value."""
    described = inspect.type_info(struct)
    assert isinstance(described, inspect.StructType)
    constant = inspect.LiteralType
    return {
        field.name: sample(field.type)
        for field in described.fields
        if not (isinstance(field.type, constant) and len(field.type.values) == 1)
    }


@pytest.mark.parametrize("name", [name for name in MESSAGES if name not in ("WatchEvent", "StateChange")])
def test_every_field_goes_there_and_back(name: str) -> None:
    """The JSON of a whole struct is the same after the message, and so it is decoded to the same struct."""
    values = sample_of(MESSAGES[name])
    assert plain(filled(name, values)) == values
    assert plain(message_class(name).FromString(filled(name, values).SerializeToString())) == values
    assert msgspec.convert(values, MESSAGES[name], strict=False)


def test_each_kind_of_a_field_is_the_one_field_of_the_struct() -> None:
    """A URL alone, names alone, so many steps: what JSON has in one place."""
    alone = {"previews_every": 4, "webhook_url": "https://x.example", "adapter_names": ["ink"], "prompt": "x"}
    asked = plain(message_class("SubmitRequest")(**alone))
    assert asked == {"prompt": "x", "previews": 4, "webhook": "https://x.example", "adapters": ["ink"]}
    submit = msgspec.convert(asked, JobSubmit)
    assert (submit.previews, submit.webhook, submit.adapters) == (4, "https://x.example", ["ink"])
    assert {name for _, name in VARIANTS} == {"adapters", "seed", "previews", "webhook"}
