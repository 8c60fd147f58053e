"""Checkpoints of a request's rows as bytes: a safetensors file whose header holds the plain values.

The file may come from anywhere that others can write to, so nothing in it is trusted: no pickle, bounded lengths, and
whatever is wrong with it is one kind of error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from actors.engine.errors import CheckpointError
from actors.engine.stepping import RowState

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

    from actors.engine.request import RenderRequest
    from safelight.config import ModelSettings

MAX_BYTES = 512 * 1024 * 1024
"""The longest checkpoint: latents of a picture take one or two MiB, those of a video some tens."""

_VERSION = 1
_MAX_HEADER_BYTES = 1024 * 1024
_LENGTH_BYTES = 8  # safetensors: the header's length comes first, little-endian
_METADATA = "__metadata__"
_OWN = "safelight"  # the one key of the header's metadata


class _RowNote(msgspec.Struct, frozen=True, kw_only=True):
    """What the header tells of one row."""

    step: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
    values: dict[str, Any]


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    """What the header tells."""

    version: int
    identity: str
    rows: Annotated[list[_RowNote], msgspec.Meta(max_length=1024)]


def identity_of(request: RenderRequest, settings: ModelSettings) -> str:
    """A digest of all that decides the latents: a checkpoint goes on only where it is the same.

    The device and what ``dtype = "auto"`` means on it are left out: another device goes on where one stopped.
    """
    adapters = [
        [name, weight, known.identity if (known := settings.adapters.get(name)) else None]
        for name, weight in request.adapters
    ]
    look = {
        "version": _VERSION,
        "model": [settings.identity, settings.revision, settings.variant, settings.dtype, settings.quantize],
        "family": [settings.traits.name, settings.traits.version],
        "max_sequence_length": settings.max_sequence_length,
        "prompts": [request.prompt, request.negative_prompt],
        "size": [request.width, request.height, request.frames],
        "steps": request.steps,
        "guidance": request.guidance,
        "seeds": request.seeds,
        "adapters": adapters,
        "pictures": [_digest_of(request.image), _digest_of(request.mask), request.strength],
    }
    return hashlib.sha256(json.dumps(look, sort_keys=True).encode()).hexdigest()


def pack(states: Sequence[RowState], identity: str) -> bytes:
    """The states of a request's rows, in order. Raises CheckpointError where they are longer than ``MAX_BYTES``."""
    rows = [{"step": state.step, "values": dict(state.values)} for state in states]
    metadata = {_OWN: json.dumps({"version": _VERSION, "identity": identity, "rows": rows})}
    if not any(state.tensors for state in states):  # the simulated device's: there may be no torch
        header = json.dumps({_METADATA: metadata}).encode()
        return len(header).to_bytes(_LENGTH_BYTES, "little") + header
    from safetensors.torch import save

    tensors = {
        # Of its own: safetensors takes no tensors that share their memory, and a scheduler keeps a sample twice.
        f"{index}/{name}": tensor.detach().cpu().contiguous().clone()
        for index, state in enumerate(states)
        for name, tensor in state.tensors.items()
    }
    if sum(tensor.nbytes for tensor in tensors.values()) > MAX_BYTES - _MAX_HEADER_BYTES:
        raise CheckpointError(f"the rows' states are longer than {MAX_BYTES} bytes")
    data: bytes = save(tensors, metadata=metadata)
    return data


def unpack(data: bytes, identity: str) -> list[RowState]:
    """The states that ``pack`` was given. Raises CheckpointError on damaged bytes, or another request's."""
    header = _header_of(data)
    note = _note_of(header)
    if note.version != _VERSION or note.identity != identity:
        raise CheckpointError("the checkpoint is another request's")
    tensors = _tensors_of(data) if header.keys() - {_METADATA} else {}
    return [
        RowState(step=row.step, tensors=_own(tensors, f"{index}/"), values=row.values)
        for index, row in enumerate(note.rows)
    ]


def _header_of(data: bytes) -> dict[str, Any]:
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    if len(data) > MAX_BYTES or length > _MAX_HEADER_BYTES:
        raise CheckpointError("the checkpoint is too long to be one")
    try:
        return msgspec.convert(json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + length]), dict[str, Any])
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise CheckpointError("the checkpoint has no header that can be read") from error


def _note_of(header: Mapping[str, Any]) -> _Note:
    try:
        return msgspec.convert(json.loads(header[_METADATA][_OWN]), _Note)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError("the checkpoint's header is none of ours") from error


def _tensors_of(data: bytes) -> dict[str, torch.Tensor]:
    from safetensors.torch import load

    try:
        return load(data)
    except Exception as error:  # safetensors checks all lengths, and torch what is left; neither lists its errors
        raise CheckpointError(f"the checkpoint's tensors can't be read: {type(error).__name__}") from error


def _own(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _digest_of(image: Image | None) -> str | None:
    if image is None:
        return None
    return hashlib.sha256(f"{image.mode}{image.size}".encode() + image.tobytes()).hexdigest()
