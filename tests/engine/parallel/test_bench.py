"""The benchmark of kinds and ranks runs, and claims nothing on a CPU."""

from __future__ import annotations

import json
import sys

import pytest

from bench.parallel.__main__ import main


def test_it_tells_time_and_memory_of_each_plan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kinds that don't fit the family are left out; a number of ranks that does not is told why."""
    monkeypatch.setattr("bench.parallel.__main__.configure_logging", lambda _settings: None)  # other tests read logs
    options = ["--kinds", "tensor,ulysses,cfg", "--ranks", "2,3", "--rows", "1", "--steps", "1", "--size", "64x64"]
    monkeypatch.setattr(sys, "argv", ["bench.parallel", *options, "--device", "cpu"])
    main()
    told = capsys.readouterr().out
    *table, last = told.strip().splitlines()
    lines = {(line["plan"], line["ranks"]): line for line in json.loads(last)["lines"]}
    assert set(lines) == {("one device", 1), *((kind, ranks) for kind in ("tensor", "ulysses") for ranks in (2, 3))}
    for kind in ("tensor", "ulysses"):
        assert lines[kind, 2]["step_ms"] > 0
        assert len(lines[kind, 2]["weights"]) == len(lines[kind, 2]["peaks"]) == 2
        assert "4 attention heads" in lines[kind, 3]["failed"]
    assert lines["tensor", 2]["weights"][0] < lines["one device", 1]["weights"][0]
    assert "no speed-up is told" in " ".join(table)
