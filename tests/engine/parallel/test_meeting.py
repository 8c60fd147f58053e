"""Folders where ranks meet: their own, and none is left for good."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

import pytest

from actors.engine.parallel.meeting import Meeting


def test_what_a_killed_process_left_is_taken_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is in use stays, and what is not a group's."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stale, making, other = (tmp_path / name for name in ("safelight-ranks-a", "safelight-ranks-b", "else"))
    for folder in (stale, making, other):
        folder.mkdir()
    for folder in (stale, other):
        (folder / "lock").touch()
    first = Meeting()
    second = Meeting()
    assert not stale.exists()
    assert {making, other, first.folder, second.folder} == set(tmp_path.iterdir())
    assert stat.S_IMODE(first.folder.stat().st_mode) == 0o700
    for meeting in (first, second, second):
        meeting.close()
    assert {making, other} == set(tmp_path.iterdir())
