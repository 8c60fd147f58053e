"""How far rows in company are from the plain pipeline: the numbers of docs/reproducibility.md.

    .venv/bin/python -m tests.engine.families.equality [--device cuda]

Each family's tiny model of random weights, and the trained one that ships, in float32 and bfloat16: rows that differ in
prompt, guidance, steps and seed, alone and in one batch, beside the plain diffusers pipeline.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from diffusers import FluxPipeline
from diffusers.utils import logging
from rich.console import Console
from rich.table import Table

from actors.engine.latent import LatentModel
from actors.engine.request import RenderRequest
from tests.engine.conftest import SCENES
from tests.engine.families import tiny
from tests.engine.families.company import ask, crowd, far, latent_model, plain, rows_of, walk


@dataclass
class Gaps:
    """The largest differences of latents, beside their largest value, and of pictures, in levels of 256."""

    latents: list[float] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    changed: list[float] = field(default_factory=list)

    def add(self, model: LatentModel, row: Any, latents: torch.Tensor, picture: np.ndarray[Any, Any]) -> None:
        """Compare one row that is done."""
        self.latents.append(far(row.latents, latents))
        [image] = model.finish(row)
        levels = np.abs(np.asarray(image, np.int16) - (picture * 255).round().astype(np.int16))
        self.levels.append(int(levels.max()))
        self.changed.append(float((levels > 0).mean()))


def compare(model: LatentModel, requests: Sequence[RenderRequest]) -> tuple[Gaps, Gaps]:
    """The gaps of rows alone, and of the same rows in one batch."""
    alone, company = Gaps(), Gaps()
    together = walk(model, rows_of(model, *requests))
    for request, row in zip(requests, together, strict=True):
        expected, picture = plain(model, request), plain(model, request, "np")[0]
        alone.add(model, walk(model, rows_of(model, request))[0], expected, picture)
        company.add(model, row, expected, picture)
    return alone, company


def cases(dtype: torch.dtype, device: str) -> Iterator[tuple[str, LatentModel, list[RenderRequest]]]:
    """The models with requests of one batch key each."""
    for name, build in tiny.FAMILIES.items():
        yield name, latent_model(name, build().to(device, dtype), dtype, device), crowd()
    scenes = latent_model("flux", FluxPipeline.from_pretrained(SCENES, dtype=dtype).to(device), dtype, device)
    scenes.family.pipeline.set_progress_bar_config(disable=True)
    prompts = ("a red circle", "two green squares on a blue background", "a yellow triangle above a red square")
    size: dict[str, Any] = {"width": 128, "height": 128, "guidance": 0.0}
    yield (
        "scenes (ships)",
        scenes,
        [ask(prompt=prompts[seed % 3], steps=6 + seed % 3, seeds=(seed,), **size) for seed in range(8)],
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="torch's name of the device")
    device = parser.parse_args().device
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    table = Table(title=f"Largest differences from the plain pipeline, torch {torch.__version__}, {device}")
    for column in ("model", "dtype", "rows", "alone", "in company: latents", "levels of 256", "values changed"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for dtype in (torch.float32, torch.bfloat16):
        for name, model, requests in cases(dtype, device):
            alone, company = compare(model, requests)
            table.add_row(
                name,
                str(dtype).removeprefix("torch."),
                str(len(requests)),
                "bit-equal" if max(alone.latents) == 0 == max(alone.levels) else f"{max(alone.latents):.1e}",
                f"{max(company.latents):.1e}",
                str(max(company.levels)),
                f"{100 * max(company.changed):.2f}%",
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
