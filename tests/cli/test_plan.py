"""``safelight doctor --plan``: needs told without weights, beside what is measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from safelight.cli.doctor import plan as plans
from safelight.cli.doctor.drawing import draw, size_of
from safelight.cli.doctor.plan import Question, answer, as_json, parse_memory
from safelight.cli.exits import CommandError, RefusedError
from tests.cli.running import run_safelight


@pytest.fixture
def config(settings: dict[str, str]) -> Path:
    """A settings file with the shipped model."""
    return Path(settings["SAFELIGHT_CONFIG"])


def shown(found: plans.Answer) -> str:
    """What is printed."""
    from rich.console import Console

    console = Console(width=120)
    with console.capture() as capture:
        console.print(draw(found))
    return capture.get()


def test_it_tells_what_goes_where(config: Path) -> None:
    """For a GPU that is not here, in the number format that it would get."""
    found = answer(config, Question(size="128x64", batch=2, memory="24MB"))
    text = shown(found)
    assert "scenes · 128x64, batch 2 · float32" in text
    assert "while encoding" in text
    assert "by blocks" in text
    assert "auto takes" in text
    assert "a GPU with 24MB" in text


@pytest.mark.parametrize(("memory", "plan"), [("24GB", "resident"), ("29.7MB", "staged"), ("20MB", "grouped")])
def test_auto_goes_by_the_memory(config: Path, memory: str, plan: str) -> None:
    """The same that a worker takes there."""
    told = as_json(answer(config, Question(batch=1, memory=memory)))
    assert told["auto"] == plan
    assert told["plans"]["resident"]["fits"] == (plan == "resident")
    json.dumps(told)


def test_loading_measures_what_was_told(config: Path) -> None:
    """Within 15%, on this machine's device."""
    told: dict[str, Any] = as_json(answer(config, Question(batch=3, load=True)))
    measured = told["measured"]
    for part in ("encoders", "denoiser", "vae"):
        assert measured[part] == pytest.approx(told["weights"][part], rel=0.15), part
    for work in ("encode", "step", "decode"):
        assert measured["activations"][work] == pytest.approx(told["activations"][work], rel=0.15), work


def test_a_quantised_model_is_told_as_it_will_be(config: Path) -> None:
    """And measured so."""
    config.write_text(config.read_text().replace('family = "flux"', 'family = "flux"\nquantize = "int8"'))
    found = answer(config, Question(batch=1, load=True))
    assert found.measured is not None
    assert found.measured.denoiser == pytest.approx(found.report.need.weights.denoiser, rel=0.01)
    assert "denoiser int8" in shown(found)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (Question(model="nope"), "known are scenes"),
        (Question(size="big"), "--size 'big'"),
        (Question(memory="lots"), "--memory 'lots'"),
    ],
)
def test_wrong_questions_are_refused(config: Path, question: Question, words: str) -> None:
    """With what was wrong about them."""
    with pytest.raises(RefusedError, match=words):
        answer(config, question)


def test_a_folder_that_is_no_model(config: Path, tmp_path: Path) -> None:
    """Says so in a line."""
    (tmp_path / "empty").mkdir()
    config.write_text(f'[models.a]\nmodel = "{tmp_path}/empty"\n')
    with pytest.raises(CommandError, match="no model_index"):
        answer(config, Question())


def test_sizes() -> None:
    """As people write and read them."""
    assert (parse_memory("24GB"), parse_memory("22.5 GiB"), parse_memory("8g")) == (24 * 10**9, 45 * 2**29, 8 * 10**9)
    assert [size_of(size) for size in (12, 2_300, 120_000_000, 23_800_000_000)] == [
        "12 B", "2.3 kB", "120 MB", "23.8 GB",
    ]  # fmt: skip


def test_the_command(settings: dict[str, str]) -> None:
    """As a process: JSON on standard output and nothing else; its options need each other."""
    done = run_safelight("doctor", "--plan", "--memory", "24GB", "--json", environment=settings)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["auto"] == "resident"
    wrong = run_safelight("doctor", "--size", "64x64", environment=settings)
    assert (wrong.returncode, "--plan" in wrong.stderr) == (2, True)
    both = run_safelight("doctor", "--plan", "--load", "--memory", "24GB", environment=settings)
    assert (both.returncode, "--memory" in both.stderr) == (2, True)
