"""``safelight verify``: whether a model on several devices gives the pictures of one, and how much faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from safelight.cli.consoles import err, out
from safelight.cli.exits import ExitCode, reported
from safelight.cli.options import ConfigOption, JsonOption
from safelight.cli.silence import silence
from safelight.cli.verify.measuring import Question, as_json
from safelight.cli.verify.measuring import verify as measure

if TYPE_CHECKING:
    from rich.table import Table

    from safelight.cli.verify.measuring import Verified


def verify(
    model: Annotated[str | None, typer.Option(help="Which model.", show_default="the default model")] = None,
    plan: Annotated[
        str | None,
        typer.Option(help="KIND-DEVICES, such as ulysses-2.", show_default="[models.NAME.parallel] in the settings"),
    ] = None,
    size: Annotated[str | None, typer.Option(help="WIDTHxHEIGHT.", show_default="the model's")] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Denoising steps.", show_default="the model's")
    ] = None,
    as_json_: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Render a fixed set of pictures on one device and on several, and compare. Exits with 1 beyond the limits."""
    question = Question(model=model, plan=plan, size=size, steps=steps)
    with reported(), silence(), err().status("Loading…") as status:
        found = measure(config, question, status.update)
    if as_json_:
        out().print_json(data=as_json(found))
    else:
        out().print(_table(found))
    raise typer.Exit(ExitCode.FAILED if found.failures else ExitCode.OK)


def _table(found: Verified) -> Table:
    from rich.table import Table

    like, limits = found.likeness, found.limits
    table = Table("", "", "limit", "", box=None, pad_edge=False)
    table.title = f"{found.name}, {found.plan} beside one device, {found.device}"
    table.add_row("pictures", f"{found.pictures} of {found.size}, {found.steps} steps", "", "")
    table.add_row("largest difference", f"{like.largest} of 255", "", "")
    table.add_row("mean difference", f"{like.mean:.4f} of 255", "", "")
    table.add_row("PSNR, the worst", f"{like.psnr:.1f} dB", f"at least {limits.psnr:g}", _state(found, "psnr"))
    table.add_row("SSIM, the worst", f"{like.ssim:.4f}", f"at least {limits.ssim:g}", _state(found, "ssim"))
    if like.lpips is None:
        table.add_row("LPIPS", f"not measured: {like.missing}", "", "")
    else:
        table.add_row("LPIPS, the worst", f"{like.lpips:.4f}", f"at most {limits.lpips:g}", _state(found, "lpips"))
    cpu = " (ranks on one CPU share its cores: only a GPU's speed-up counts)" if found.device == "cpu" else ""
    table.add_row("speed-up", f"{found.speed_up:.2f}x{cpu}", "", "")
    return table


def _state(found: Verified, name: str) -> str:
    return "[bold red]beyond[/]" if name in found.failures else "[green]ok[/]"
