"""The GPU benchmark runs: all of it that a CPU can take, with tiny models; and what it reckons with is right."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from actors.engine.compiled.knee import Knee, Timing
from bench.gpu.__main__ import main
from bench.gpu.architectures import TRUE
from bench.gpu.floors import step_flops
from bench.gpu.gaps import idle_share
from bench.gpu.plots import plot_knees
from bench.gpu.results import Results
from bench.gpu.trace import arrivals

WORDS = {"steps": "Milliseconds a step", "knee": "worth stepping together", "trace": "From arrival to picture"}


def compile_quickly(block: torch.nn.Module, **options: Any) -> None:
    """``Module.compile`` without the C++ compiler, which takes most of a minute; compiled code has tests of its own."""
    block._compiled_call_impl = torch.compile(block._call_impl, backend="eager", **options)


def test_the_smoke_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every case has a value and none an error; a second run measures nothing again; the knees are drawn."""
    results, plot = tmp_path / "found.jsonl", tmp_path / "knees.svg"
    command = ["bench.gpu", "--smoke", "--results", str(results), "--plot", str(plot)]
    monkeypatch.setattr(torch.nn.Module, "compile", compile_quickly)
    monkeypatch.setattr("bench.gpu.__main__.configure_logging", lambda _settings: None)  # other tests read logs
    monkeypatch.setattr(sys, "argv", command)
    main()
    told = capsys.readouterr().out
    for words in WORDS.values():
        assert words in told
    lines = json.loads(told.splitlines()[-1])["lines"]
    assert [line for line in lines if "error" in line] == []
    assert {line["case"]["part"] for line in lines} == {"steps", "gaps", "knee", "memory", "trace"}
    assert {line["case"].get("how") for line in lines} >= {"diffusers", "eager", "compiled"}
    assert plot.read_text().startswith("<?xml")
    before = results.read_text()
    monkeypatch.setattr(sys, "argv", [*command, "steps"])
    main()
    assert results.read_text() == before


def test_the_flops_of_known_models() -> None:
    """FLUX.1-dev at 512² with 512 tokens of text takes 21.5 TFLOP a step, at 1024² 74.4; SDXL's guidance asks twice."""
    assert step_flops(TRUE["flux"], 512) == pytest.approx(21.5e12, rel=0.01)
    assert step_flops(TRUE["flux"], 1024) == pytest.approx(74.4e12, rel=0.01)
    pipeline = TRUE["sdxl"].pipeline("meta", torch.bfloat16)
    assert sum(weight.numel() for weight in pipeline.unet.parameters()) == pytest.approx(2.57e9, rel=0.01)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 10)), min_size=1, max_size=20))
def test_the_idle_share(spans: list[tuple[int, int]]) -> None:
    """As counted tick by tick."""
    intervals = [(float(begin), float(begin + length)) for begin, length in spans]
    first, last = min(begin for begin, _ in intervals), max(end for _, end in intervals)
    ticks = range(int(first), int(last))
    idle = [tick for tick in ticks if not any(begin <= tick < end for begin, end in intervals)]
    assert idle_share(intervals) == pytest.approx(len(idle) / len(ticks))


def test_nothing_ran_at_all() -> None:
    """Then the device was idle."""
    assert idle_share([]) == 1.0


def test_a_case_that_fails_is_a_line(tmp_path: Path) -> None:
    """The others go on; the next run tries it again, and takes the others from the file."""
    path = tmp_path / "found.jsonl"
    results = Results(path, "a GPU")

    def fail() -> dict[str, int]:
        raise torch.OutOfMemoryError("CUDA out of memory")

    assert results.run({"part": "a"}, fail) == {"error": "out of memory"}
    assert results.run({"part": "b"}, lambda: {"ms": 1}) == {"ms": 1}
    with path.open("a") as file:
        file.write('{"half a li')
    again = Results(path, "a GPU")
    assert again.run({"part": "b"}, fail) == {"ms": 1}
    assert again.run({"part": "a"}, lambda: {"ms": 2}) == {"ms": 2}
    assert Results(path, "a GPU").find({"part": "a"}) == {"ms": 2}
    assert Results(path, "another GPU").find({"part": "b"}) is None


def test_a_trace_is_the_same_each_time() -> None:
    """Settings are compared on equal requests; they arrive in order, as often as asked for."""
    trace = arrivals(2000, 0.5, (64, 128), (2, 4), seed=3)
    assert trace == arrivals(2000, 0.5, (64, 128), (2, 4), seed=3)
    assert trace[0].after_s == 0
    assert trace[-1].after_s / 1999 == pytest.approx(0.5, rel=0.1)
    assert {(one.request.width, one.request.steps) for one in trace} == {(64, 2), (64, 4), (128, 2), (128, 4)}


def test_a_plot_of_knees(tmp_path: Path) -> None:
    """A raster image, if its ending says so."""
    path = tmp_path / "folder" / "knees.png"
    plot_knees({"flux 512²": Knee(2, (Timing(1, 1.0), Timing(2, 1.1)))}, path)
    assert path.read_bytes().startswith(b"\x89PNG")
