"""Canaries in the settings: which can be, and what is said of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from safelight.config import ConfigError, load_settings

STABLE = '[models.scenes]\nmodel = "a/scenes"\nfamily = "flux"\n'
CANARY = STABLE + '[models.new]\nmodel = "a/scenes"\nfamily = "flux"\nrevision = "next"\ncanary_of = "scenes"\n'


def load(folder: Path, text: str) -> object:
    """The settings of a file."""
    file = folder / "safelight.toml"
    file.write_text(text)
    return load_settings(file, {})


def test_a_canary_takes_a_twentieth_unless_told(tmp_path: Path) -> None:
    """Or what is written."""
    assert load(tmp_path, CANARY).models["new"].share == 0.05  # type: ignore[attr-defined]
    assert load(tmp_path, CANARY + "share = 0.5\n").models["new"].share == 0.5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CANARY.replace('canary_of = "scenes"', 'canary_of = "scene"'), "there is no model 'scene'"),
        (CANARY.replace('canary_of = "scenes"', 'canary_of = "new"'), "is a canary itself"),
        (CANARY + '[models.third]\nmodel = "a/b"\nfamily = "flux"\ncanary_of = "new"\n', "is a canary itself"),
        (CANARY + "share = 1.5\n", "share"),
        (CANARY + "share = 0.6\n" + CANARY.removeprefix(STABLE).replace("new", "other") + "share = 0.6\n", "1.2"),
    ],
)
def test_what_can_t_be_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """By the key, with what to do."""
    with pytest.raises(ConfigError, match=words):
        load(tmp_path, text)
