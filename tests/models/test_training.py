"""The trainer: every stage runs, resumes, and exports what a FLUX pipeline loads."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("diffusers")

import torch

from models.training.__main__ import main
from models.training.evaluate import make_questions, render
from models.training.flow import pack
from models.training.parts import load_parts, make_pipeline
from models.training.stage import Budget, Schedule, Stage
from models.training.text import CHOICES, scene_answers
from models.training.untyped import FluxPipeline


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of the shortest training there is."""
    out = tmp_path_factory.mktemp("models") / "smoke"
    main(["train", "--smoke", "--out", str(out), "--threads", "1"])
    return out


def test_the_export_renders(smoke: Path) -> None:
    """The exported folder loads offline, and draws pictures of the size that is asked for."""
    pipeline = FluxPipeline.from_pretrained(smoke, dtype=torch.float32, local_files_only=True)
    images = render(pipeline, make_questions((96, 64), 2), 2)
    assert [image.size for image in images] == [(96, 64), (96, 64)]


def test_the_export_is_small(smoke: Path) -> None:
    """Weights are saved in half precision, so that they can lie in a repository."""
    assert sum(path.stat().st_size for path in smoke.rglob("*") if path.is_file()) < 12_000_000


def test_training_goes_on_from_an_export(smoke: Path, tmp_path: Path) -> None:
    """With --init the autoencoder is kept and the rest is trained on."""
    main(["train", "--smoke", "--init", str(smoke), "--out", str(tmp_path / "next"), "--threads", "1"])
    before, after = load_parts(smoke), load_parts(tmp_path / "next")
    assert torch.equal(before.vae.quant_conv.weight, after.vae.quant_conv.weight)
    assert not torch.equal(before.transformer.x_embedder.weight, after.transformer.x_embedder.weight)


def test_training_encodes_text_as_the_pipeline_does(smoke: Path) -> None:
    """Otherwise the transformer would be trained on other inputs than it renders with."""
    parts = load_parts(smoke)
    caption = "a red circle left of a blue square"
    with torch.no_grad():
        pooled, states = parts.encode_text([caption])
        wanted_states, wanted_pooled, _ = make_pipeline(parts).encode_prompt(caption, None, max_sequence_length=24)
    torch.testing.assert_close(pooled, wanted_pooled)
    torch.testing.assert_close(states, wanted_states)


def test_evaluate_prints_a_table_and_json(smoke: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last line is for programs; the judge's own score on true scenes is part of it."""
    sheet = tmp_path / "sheet.png"
    main(["evaluate", str(smoke), "--captions", "2", "--steps", "1", "--sizes", "64x64", "--sheet", str(sheet)])
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert '"judge": {"background": 1.0' in last
    assert sheet.exists()


def test_a_stage_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """Stopped after two steps and given four, a stage takes the other two."""
    losses = 0

    def run(steps: int) -> Stage:
        torch.manual_seed(0)
        layer = torch.nn.Linear(2, 1)

        def loss() -> torch.Tensor:
            nonlocal losses
            losses += 1
            value: torch.Tensor = layer(torch.ones(1, 2)).square().sum()
            return value

        stage = Stage("layer", {"layer": layer}, tmp_path, Budget(0, steps=steps), Schedule(1e-2, 0.5))
        stage.run(loss)
        return stage

    run(2)
    assert run(4).step == 4
    assert losses == 4


def test_the_learning_rate_warms_up_and_ends_at_zero() -> None:
    """Up over the first steps, level, then down along a cosine."""
    schedule = Schedule(1.0, decay_from=0.5, warmup_steps=10)
    assert schedule.at(0.0, 0) == pytest.approx(0.1)
    assert schedule.at(0.4, 100) == pytest.approx(1.0)
    assert schedule.at(1.0, 200) == pytest.approx(0.0)


def test_latents_are_packed_as_the_pipeline_packs_them() -> None:
    """Two by two into one token, in diffusers' order."""
    latents = torch.randn(2, 8, 4, 6)
    wanted = FluxPipeline._pack_latents(latents, 2, 8, 4, 6)
    torch.testing.assert_close(pack(latents), wanted)


def test_a_scene_has_one_answer_to_each_question() -> None:
    """The text stage asks the same questions of every scene."""
    for question in make_questions((128, 128), 20):
        answers = scene_answers(question.scene)
        assert len(answers) == len(CHOICES)
