"""Measures an exported pipeline: pictures of captions kept out of training, judged by their pixels."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from rich.console import Console
from rich.table import Table

from .captions import is_held_out, write_caption
from .judge import Verdict, judge
from .progress import progress_bar
from .render import render_scene
from .scenes import Scene, sample_scene
from .sheet import Picture, save_sheet
from .sizes import Size
from .untyped import FluxPipeline, Untyped
from .vocab import T5_TOKENS

BATCH = 8
SEED = 20_000_000_000
FIELDS = ("background", "count", "relation", "colour", "shape", "size", "position", "everything")

Score = dict[str, float | None]


@dataclass(frozen=True)
class Question:
    """A caption to render, with the scene it describes and the seed to start from."""

    caption: str
    scene: Scene
    size: Size
    seed: int


def make_questions(size: Size, count: int, seed: int = SEED) -> list[Question]:
    """Captions that training leaves out, with their scenes."""
    rng = random.Random(f"{seed} {size}")
    questions: list[Question] = []
    while len(questions) < count:
        scene = sample_scene(rng, *size)
        caption = write_caption(rng, scene, unknown=0.0)
        if is_held_out(caption):
            questions.append(Question(caption, scene, size, len(questions)))
    return questions


def evaluate(model: Path, sizes: Iterable[Size], captions: int, steps: int, sheet: Path | None) -> None:
    """Render and judge, then print a table and a last line of JSON."""
    sizes = list(sizes)
    pipeline = FluxPipeline.from_pretrained(model, dtype=torch.float32, local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    scores: dict[str, Score] = {}
    truths: list[Verdict] = []
    pictures: list[Picture] = []
    started = time.monotonic()
    with progress_bar("evaluate", captions * len(sizes)) as advance:
        for size in sizes:
            verdicts = []
            questions = make_questions(size, captions)
            for start in range(0, captions, BATCH):
                batch = questions[start : start + BATCH]
                for question, image in zip(batch, render(pipeline, batch, steps), strict=True):
                    verdicts.append(judge(image, question.scene))
                    truths.append(judge(render_scene(question.scene, *size), question.scene))
                    pictures.append(Picture(image, question.caption, verdicts[-1].everything))
                advance(len(batch))
            scores[f"{size[0]}x{size[1]}"] = score(verdicts)
    seconds = (time.monotonic() - started) / (captions * len(sizes))
    _report(scores, score(truths), {"captions": captions, "steps": steps, "seconds": round(seconds, 3)})
    if sheet:
        save_sheet(pictures, sheet)


def render(pipeline: Untyped, questions: list[Question], steps: int) -> list[Image.Image]:
    """The pipeline's pictures for questions of one size."""
    width, height = questions[0].size
    images: list[Image.Image] = pipeline(
        [question.caption for question in questions],
        width=width,
        height=height,
        num_inference_steps=steps,
        max_sequence_length=T5_TOKENS,
        generator=[torch.Generator().manual_seed(question.seed) for question in questions],
    ).images
    return images


def score(verdicts: list[Verdict]) -> Score:
    """The share that is right, field by field, of the pictures whose caption states it."""
    shares: Score = {}
    for field in FIELDS:
        answers = [answer for verdict in verdicts if (answer := getattr(verdict, field)) is not None]
        shares[field] = round(sum(answers) / len(answers), 4) if answers else None
    return shares


def _report(scores: dict[str, Score], truth: Score, settings: dict[str, float]) -> None:
    table = Table("size", *FIELDS, title=f"{settings['captions']} captions a size, {settings['steps']} steps")
    for size, shares in scores.items():
        table.add_row(size, *_percents(shares))
    table.add_section()
    table.add_row("judge on true scenes", *_percents(truth))
    Console(width=max(120, Console().width)).print(table)
    print(json.dumps({**settings, "sizes": scores, "judge": truth}))


def _percents(shares: Score) -> list[str]:
    return ["-" if share is None else f"{share:.1%}" for share in shares.values()]
