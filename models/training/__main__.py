"""The command line: train, export a checkpoint, evaluate an export."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch

from .evaluate import evaluate
from .sizes import PICTURES, parse_size
from .stage import Budget
from .train import Settings, smoke_settings, train

WORK = Path("models/.work")


def main(arguments: list[str] | None = None) -> None:
    """Run one command."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    options.run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m models.training", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_train(commands.add_parser("train", help="train every stage and export; resumes where it stopped"))
    _add_export(commands.add_parser("export", help="export what the checkpoints hold so far"))
    _add_evaluate(commands.add_parser("evaluate", help="measure an export on captions kept from training"))
    for command in commands.choices.values():
        command.add_argument("--threads", type=int, default=2, help="processor threads (default: 2)")
        command.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    return parser


def _add_train(parser: argparse.ArgumentParser) -> None:
    _add_folders(parser)
    parser.add_argument("--smoke", action="store_true", help="two steps a stage, to see that all of it runs")
    parser.add_argument("--seed", type=int, default=Settings.seed)
    for stage in ("vae", "text", "flow", "guidance"):
        minutes = getattr(Settings, stage).minutes
        parser.add_argument(f"--{stage}-minutes", type=float, default=minutes, help=f"for the {stage} stage")
    parser.add_argument("--flow-rate", type=float, default=Settings.flow_rate, help="highest learning rate")
    parser.add_argument("--guidance-scale", type=float, default=Settings.guidance_scale, help="guidance to build in")
    parser.add_argument(
        "--data-share", type=float, default=Settings.data_share, help="share of true data in that stage"
    )
    parser.set_defaults(run=_train)


def _add_export(parser: argparse.ArgumentParser) -> None:
    _add_folders(parser)
    parser.set_defaults(run=_export)


def _add_folders(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, help="folder for the exported pipeline")
    parser.add_argument("--work", type=Path, default=WORK, help="folder for checkpoints, latents and logs")
    parser.add_argument("--init", type=Path, help="go on from this export; skips the vae and text stages")


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    sizes = [f"{width}x{height}" for width, height in PICTURES]
    parser.add_argument("model", type=Path, help="folder of an exported pipeline")
    parser.add_argument("--captions", type=int, default=240, help="captions a size")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--sizes", nargs="+", default=sizes, metavar="WxH")
    parser.add_argument("--sheet", type=Path, help="also save a contact sheet here")
    parser.set_defaults(run=_evaluate)


def _train(options: argparse.Namespace) -> None:
    if options.smoke:
        with tempfile.TemporaryDirectory() as work:
            train(smoke_settings(options.out, Path(work), options.init, options.seed))
        return
    settings = Settings(
        options.out,
        options.work,
        options.init,
        options.seed,
        vae=Budget(options.vae_minutes),
        text=Budget(options.text_minutes),
        flow=Budget(options.flow_minutes),
        guidance=Budget(options.guidance_minutes),
        flow_rate=options.flow_rate,
        guidance_scale=options.guidance_scale,
        data_share=options.data_share,
    )
    train(settings)


def _export(options: argparse.Namespace) -> None:
    train(Settings(options.out, options.work, options.init), export_only=True)


def _evaluate(options: argparse.Namespace) -> None:
    sizes = [parse_size(size) for size in options.sizes]
    evaluate(options.model, sizes, options.captions, options.steps, options.sheet)


if __name__ == "__main__":
    main()
