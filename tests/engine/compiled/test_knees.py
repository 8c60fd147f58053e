"""Knees in a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from actors.engine.compiled.knee import Knee, Timing
from actors.engine.compiled.knees import KneeKey, Knees

KEY = KneeKey(model="a/b", revision="1", dtype="bfloat16", size="512x512", device="NVIDIA H200", mode="regional")
KNEE = Knee(2, (Timing(1, 1.0), Timing(2, 1.1), Timing(3, 1.7)), full=True)


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    """By another process too; a key that differs in anything is another."""
    path = tmp_path / "folder" / "knees.json"
    Knees(path).keep(KEY, KNEE)
    found = Knees(path)
    assert found.get(KEY) == KNEE
    assert found.limit(KEY) == 2
    assert found.limit(replace(KEY, size="1024x1024")) is None
    assert found.limit(replace(KEY, guided=True)) is None


def test_two_processes_keep_both(tmp_path: Path) -> None:
    """What another wrote meanwhile stays, and no temporary file is left."""
    path = tmp_path / "knees.json"
    first, second = Knees(path), Knees(path)
    other = replace(KEY, mode="eager")
    first.keep(KEY, KNEE)
    second.keep(other, KNEE)
    assert Knees(path).get(KEY) == Knees(path).get(other) == KNEE
    assert [file.name for file in tmp_path.iterdir()] == ["knees.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"version":2,"knees":[]}',
        b'{"version":1}',
        b'{"version":1,"knees":[{"key":{"model":1},"rows":1,"full":false,"timings":[]}]}',
        b'{"version":1,"knees":[{"rows":0}]}',
        b"\xff",
    ],
)
def test_a_broken_file_is_empty(tmp_path: Path, content: bytes) -> None:
    """It is written anew by the next measurement."""
    path = tmp_path / "knees.json"
    path.write_bytes(content)
    knees = Knees(path)
    assert knees.limit(KEY) is None
    knees.keep(KEY, KNEE)
    assert Knees(path).get(KEY) == KNEE


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk costs the new knee, not the others."""
    path = tmp_path / "knees.json"
    knees = Knees(path)
    knees.keep(KEY, KNEE)

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        knees.keep(replace(KEY, revision="2"), KNEE)
    assert Knees(path).get(KEY) == KNEE
    assert [file.name for file in tmp_path.iterdir()] == ["knees.json"]
