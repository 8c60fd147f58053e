"""How ``safelight doctor --plan`` looks: a table of what goes where, and a bar a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import ConsoleRenderable, Group
    from rich.table import Table

    from safelight.cli.doctor.plan import Answer

_BAR = 40  # columns


def draw(found: Answer) -> Group:
    """Everything in an answer."""
    from rich.console import Group
    from rich.markup import escape
    from rich.text import Text

    from actors.engine.memory.plans import fits

    report = found.report
    quantized = "" if found.quantize == "none" else f", denoiser {found.quantize}"
    title = f"[bold]{escape(found.name)}[/] · {found.size}, batch {found.batch} · {report.dtype}{quantized}"
    lines: list[ConsoleRenderable] = [Text.from_markup(title), Text(), _parts(found), Text(), _bars(found), Text()]
    verdict = f"[bold]auto[/] takes [bold green]{report.auto}[/] on {escape(found.device)}"
    if found.wanted != "auto":
        verdict += f"; the settings say [bold]{found.wanted}[/]"
    lines.append(Text.from_markup(verdict))
    if not fits(report.need, report.auto, report.room):
        lines.append(Text.from_markup("[dim]a batch that turns out too large is halved[/]"))
    if not report.need.traced:
        lines.append(Text.from_markup("[dim]activations are an allowance: no family here steps this pipeline[/]"))
    return Group(*lines)


def size_of(size: int) -> str:
    """Bytes for people: three digits or so."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            value = size / factor
            return f"{value:.1f} {unit}" if value < 100 else f"{value:.0f} {unit}"
    return f"{size} B"


def _parts(found: Answer) -> Table:
    from rich.table import Table

    weights, activations = found.report.need.weights, found.report.need.activations
    real = _measured(found)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("part")
    for column in ("expected", "measured") if real else ("expected",):
        table.add_column(column, justify="right")
    for plan in ("resident", "staged", "grouped"):
        table.add_column(plan)

    def add(name: str, expected: int, *where: str) -> None:
        measured = [size_of(real[name]) if name in real else ""] if real else []
        table.add_row(name, size_of(expected), *measured, *where)

    add("text encoders", weights.encoders, "stay", "while encoding", "while encoding")
    add("denoiser", weights.denoiser, "stays", "stays", f"by blocks, {size_of(weights.streamed)}")
    add("VAE", weights.vae, "stays", "while decoding", "while decoding")
    if weights.others:
        add("others", weights.others, "stay", "stay", "stay")
    add("encoding a text", activations.encode)
    add("a step", activations.step)
    add("decoding a picture", activations.decode)
    return table


def _measured(found: Answer) -> dict[str, int]:
    """Bytes by the table's rows; empty where nothing was loaded."""
    real = found.measured
    if real is None:
        return {}
    return {
        "text encoders": real.encoders,
        "denoiser": real.denoiser,
        "VAE": real.vae,
        "encoding a text": real.activations.encode,
        "a step": real.activations.step,
        "decoding a picture": real.activations.decode,
    }


def _bars(found: Answer) -> Table:
    from rich.table import Table

    from actors.engine.memory.plans import PLANS, fits

    need, room = found.report.need, found.report.room
    table = Table(box=None, show_header=False, pad_edge=False)
    for plan in PLANS:
        peak = need.peak(plan)
        filled = min(_BAR, max(1, round(_BAR * peak / room)))
        colour = "green" if fits(need, plan, room) else "red"
        bar = f"[{colour}]{'━' * filled}[/][dim]{'╌' * (_BAR - filled)}[/]"
        fit = "" if fits(need, plan, room) else " [red]does not fit[/]"
        table.add_row(f"[bold]{plan}[/]", bar, f"{size_of(peak)} of {size_of(room)}{fit}")
    return table
