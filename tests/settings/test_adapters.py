"""Adapters in the settings: where they lie, and that other weights are another revision."""

from __future__ import annotations

from pathlib import Path

import pytest

from safelight.config import AdapterSettings, ConfigError, load_settings

NAME = "[models.a.adapters.ink]"


def load(folder: Path, adapter: str) -> AdapterSettings:
    """The adapter ``ink`` of a settings file with these lines."""
    file = folder / "safelight.toml"
    file.write_text(f'[models.a]\nmodel = "a/b"\n{NAME}\n{adapter}')
    return load_settings(file, {}).models["a"].adapters["ink"]


def test_a_file_is_found_beside_the_settings(tmp_path: Path) -> None:
    """Its path becomes whole, its content the revision."""
    (tmp_path / "ink.safetensors").write_bytes(b"one")
    first = load(tmp_path, 'path = "ink.safetensors"')
    assert first.path == str(tmp_path / "ink.safetensors")
    (tmp_path / "ink.safetensors").write_bytes(b"two")
    second = load(tmp_path, 'path = "ink.safetensors"')
    assert first.revision
    assert second.revision
    assert first.revision != second.revision
    assert load(tmp_path, 'path = "ink.safetensors"\nrevision = "mine"').revision == "mine"


def test_a_folder_gives_its_only_file_or_the_named_one(tmp_path: Path) -> None:
    """Of several, one must be named."""
    folder = tmp_path / "loras"
    folder.mkdir()
    (folder / "ink.safetensors").write_bytes(b"one")
    assert load(tmp_path, 'path = "loras"').path == str(folder / "ink.safetensors")
    (folder / "oil.safetensors").write_bytes(b"two")
    assert load(tmp_path, 'path = "loras"\nfile = "oil.safetensors"').path == str(folder / "oil.safetensors")
    with pytest.raises(ConfigError, match="holds 2 "):
        load(tmp_path, 'path = "loras"')


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('path = "./gone"', "no file or folder"),
        ('path = "gone.safetensors"', "no file or folder"),
        ('path = "empty"', "holds no .safetensors file"),
        ('path = "empty"\nfile = "x.safetensors"', "no x.safetensors"),
        ('path = "weights.bin"', "not a .safetensors file"),
    ],
)
def test_what_is_missing_is_named_with_its_table(tmp_path: Path, lines: str, words: str) -> None:
    """So that nobody looks for it in the log of a worker."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "weights.bin").write_bytes(b"pickle")
    with pytest.raises(ConfigError, match=words) as caught:
        load(tmp_path, lines)
    assert NAME in str(caught.value)


def test_what_is_not_here_is_a_hub_id(tmp_path: Path) -> None:
    """Like a model's."""
    adapter = load(tmp_path, 'path = "owner/ink"\nfile = "ink.safetensors"')
    assert (adapter.path, adapter.file, adapter.revision) == ("owner/ink", "ink.safetensors", "main")
