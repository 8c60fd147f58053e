"""Checkpoints as bytes: what is packed comes back, and nothing else is taken for it."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from typing import Any

import msgspec
import pytest
import torch
from PIL import Image
from safetensors.torch import load

from actors.engine import RenderRequest, checkpoints
from actors.engine.checkpoints import identity_of, pack, unpack
from actors.engine.errors import CheckpointError
from actors.engine.stepping import RowState
from safelight.config import ModelSettings
from safelight.config.settings import AdapterSettings
from tests.e2e.processes import REPOSITORY

MODEL = ModelSettings(model="a/b", family="flux", revision="r1", adapters={"w": AdapterSettings(path="c/d")})
REQUEST = RenderRequest(
    model="x", prompt="a cat", width=64, height=64, steps=8, seeds=(1, 2), adapters=(("w", 0.5),), guidance=3.5
)
IDENTITY = identity_of(REQUEST, MODEL)


def states() -> list[RowState]:
    """Two rows: half precision, shared and sliced memory, an empty tensor, values of all kinds."""
    sample = torch.arange(24.0).reshape(2, 3, 4)
    tensors = {"latents": sample.bfloat16(), "scheduler.sample": sample[:, 1], "scheduler.outputs.0": sample[:, 1]}
    values = {"scheduler.index": 3, "scheduler.sigma": float("inf"), "scheduler.kind": None, "scheduler.low": True}
    return [
        RowState(step=3, tensors=tensors, values=values),
        RowState(step=5, tensors={"latents": torch.empty(0, 4), "generator": torch.Generator().get_state()}),
    ]


def test_what_is_packed_comes_back() -> None:
    """To the bit and the number format, row by row."""
    back = unpack(pack(states(), IDENTITY), IDENTITY)
    for state, found in zip(states(), back, strict=True):
        assert (found.step, found.values) == (state.step, dict(state.values))
        assert found.tensors.keys() == state.tensors.keys()
        for name, tensor in state.tensors.items():
            assert found.tensors[name].dtype == tensor.dtype
            assert torch.equal(found.tensors[name], tensor)


def test_rows_without_tensors_need_no_torch() -> None:
    """A simulated device's: the file is one all the same."""
    program = """
import sys
from actors.engine.checkpoints import pack, unpack
from actors.engine.stepping import RowState
data = pack([RowState(step=3, values={"a": 1})], "x")
[state] = unpack(data, "x")
assert (state.step, state.values, state.tensors) == (3, {"a": 1}, {}), state
assert "torch" not in sys.modules
sys.stdout.buffer.write(data)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, check=True, timeout=60)
    assert load(done.stdout) == {}


def test_eleven_rows_stay_apart() -> None:
    """The tensors of row 1 are not those of row 10."""
    rows = [RowState(step=step, tensors={"latents": torch.full((2,), float(step))}) for step in range(11)]
    back = unpack(pack(rows, IDENTITY), IDENTITY)
    assert [(state.step, state.tensors["latents"].tolist()) for state in back] == [
        (step, [float(step)] * 2) for step in range(11)
    ]


def test_another_requests_is_refused() -> None:
    """Whatever else fits."""
    with pytest.raises(CheckpointError, match="another request's"):
        unpack(pack(states(), IDENTITY), "another")


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "a dog"},
        {"negative_prompt": "a dog"},
        {"width": 80},
        {"steps": 9},
        {"guidance": None},
        {"seeds": (1, 3)},
        {"adapters": (("w", 0.6),)},
        {"adapters": ()},
        {"image": Image.new("RGB", (8, 8))},
        {"strength": 0.5},
        {"frames": 9},
    ],
)
def test_what_decides_the_latents_is_in_the_identity(change: dict[str, Any]) -> None:
    """A field of the request."""
    fields = {name: getattr(REQUEST, name) for name in REQUEST.__slots__} | change
    assert identity_of(RenderRequest(**fields), MODEL) != IDENTITY


@pytest.mark.parametrize(
    "change",
    [
        {"revision": "r2"},
        {"dtype": "float16"},
        {"quantize": "int8"},
        {"family": "sd3"},
        {"variant": "fp16"},
        {"max_sequence_length": 77},
        {"adapters": {"w": AdapterSettings(path="c/e")}},
        {"adapters": {"w": AdapterSettings(path="c/d", revision="r2")}},
    ],
)
def test_what_the_model_is_is_in_the_identity(change: dict[str, Any]) -> None:
    """A trait of the settings, those of its adapters too."""
    assert identity_of(REQUEST, msgspec.structs.replace(MODEL, **change)) != IDENTITY


def test_deadline_and_name_are_not_in_the_identity() -> None:
    """They decide no pixel, and a later attempt has another deadline."""
    fields = {name: getattr(REQUEST, name) for name in REQUEST.__slots__} | {"deadline": 5.0, "model": "y"}
    assert identity_of(RenderRequest(**fields), MODEL) == IDENTITY


def damaged(kind: str) -> bytes:
    """Bytes that are no checkpoint of ours."""
    whole = pack(states(), IDENTITY)
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    note = json.loads(header["__metadata__"]["safelight"])

    def made(header: object) -> bytes:
        text = json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + whole[8 + length :]

    def noted(note: object) -> bytes:
        return made(header | {"__metadata__": {"safelight": json.dumps(note)}})

    first = next(name for name in header if name != "__metadata__")
    return {
        "empty": b"",
        "short": whole[:5],
        "cut": whole[:-3],
        "half a header": whole[: 8 + length // 2],
        "more": whole + b"0000",
        "pickle": b"\x80\x04\x95" + bytes(100),
        "long header": (2**62).to_bytes(8, "little") + whole[8:],
        "header beyond bounds": made(header | {"filler": "x" * 2_000_000}),
        "deep": made(header | {"__metadata__": {"safelight": "[" * 100_000}}),
        "no metadata": made({name: entry for name, entry in header.items() if name != "__metadata__"}),
        "metadata of another kind": made(header | {"__metadata__": {"format": "pt"}}),
        "header no object": made([1, 2]),
        "a step below 0": noted(note | {"rows": [{"step": -1, "values": {}}]}),
        "too many rows": noted(note | {"rows": [{"step": 1, "values": {}}] * 5000}),
        "a step that is a word": noted(note | {"rows": [{"step": "3", "values": {}}]}),
        "another version": noted(note | {"version": 2}),
        "number format": made(header | {first: header[first] | {"dtype": "F128"}}),
        "shape": made(header | {first: header[first] | {"shape": [2**40, 2**40]}}),
        "place": made(header | {first: header[first] | {"data_offsets": [0, 2**50]}}),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "empty", "short", "cut", "half a header", "more", "pickle", "long header", "header beyond bounds", "deep",
        "no metadata", "metadata of another kind", "header no object", "a step below 0", "too many rows",
        "a step that is a word", "another version", "number format", "shape", "place",
    ],
)  # fmt: skip
def test_hostile_bytes_are_one_kind_of_error(kind: str) -> None:
    """And cost neither memory nor time."""
    with pytest.raises(CheckpointError):
        unpack(damaged(kind), IDENTITY)


def test_random_damage_is_one_kind_of_error_or_none() -> None:
    """A flipped byte in the header is noticed or harmless; those of the tensors are numbers like others."""
    whole = pack(states(), IDENTITY)
    for place in range(0, 8 + int.from_bytes(whole[:8], "little"), 7):
        with suppress(CheckpointError):
            unpack(whole[:place] + bytes([whole[place] ^ 0x11]) + whole[place + 1 :], IDENTITY)


def test_what_is_too_long_is_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound, so that nobody's outputs fill up."""
    monkeypatch.setattr(checkpoints, "MAX_BYTES", checkpoints._MAX_HEADER_BYTES + 100)
    with pytest.raises(CheckpointError, match="longer"):
        pack([RowState(step=1, tensors={"latents": torch.zeros(1000)})], IDENTITY)
