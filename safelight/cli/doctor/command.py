"""``safelight doctor``: checks everything that Safelight needs, and says what to do about what fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from safelight.cli.consoles import err, out
from safelight.cli.doctor import plan as plans
from safelight.cli.doctor.check import Check, Status, fail, ok
from safelight.cli.doctor.drawing import draw
from safelight.cli.doctor.plan import Question
from safelight.cli.doctor.split import draw_split, save_split
from safelight.cli.exits import ExitCode, RefusedError, reported
from safelight.cli.options import ConfigOption, JsonOption
from safelight.cli.silence import silence
from safelight.config import ConfigError, load_settings

if TYPE_CHECKING:
    from rich.table import Table

_COLOURS = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "bold red"}


def doctor(
    load: Annotated[
        bool | None,
        typer.Option(
            "--load/--no-load", help="Load every model and render one step.", show_default="folders under 100 MB"
        ),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Tell what a model's memory plans need, without loading a weight.")
    ] = False,
    knee: Annotated[
        bool,
        typer.Option("--knee", help="Measure how many pictures are worth a step on this device, and keep it."),
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="For --plan, --knee: which model.", show_default="the default model")
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="For --plan, --knee: WIDTHxHEIGHT.", show_default="the model's")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="For --plan, --knee: pictures a step (at most).", show_default="max_batch"),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="For --plan: a GPU's memory, such as 24GB.", show_default="this device's")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="For --plan: write the graph of a model's stages to this file, as JSON.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Check settings, data folder, store, broker, outputs, device and models. Exits with 1 if anything fails."""
    given = {"--model": model, "--size": size, "--batch": batch, "--memory": memory, "--save": save}
    question = Question(model=model, size=size, batch=batch, memory=memory, load=bool(load))
    if plan or knee:
        with reported():
            if plan and knee:
                raise RefusedError("--plan and --knee: one at a time")
            if knee and save is not None:
                raise RefusedError("--save: only with --plan")
        if plan:
            _show_plan(config, question, as_json, save)
        else:
            _show_knee(config, question, as_json)
        return
    with reported():
        if stray := [name for name, value in given.items() if value is not None]:
            raise RefusedError(f"{', '.join(stray)}: only with --plan or --knee")
    with silence(), err().status("Checking…"):
        checks = list(run_checks(config, load))
    if as_json:
        import msgspec

        out().print_json(data={"ok": _healthy(checks), "checks": msgspec.to_builtins(checks)})
    else:
        out().print(_table(checks))
    raise typer.Exit(ExitCode.OK if _healthy(checks) else ExitCode.FAILED)


def _show_plan(config: Path | None, question: Question, to_json: bool, save: Path | None) -> None:
    with reported():
        if question.load and question.memory is not None:
            raise RefusedError("--load measures on this machine's device: leave --memory out")
        with silence(), err().status("Loading…" if question.load else "Reckoning…"):
            found = plans.answer(config, question)
        if save is not None:
            save_split(found.split, found.name, save)
    if to_json:
        out().print_json(data=plans.as_json(found))
    else:
        out().print(draw(found))
        if found.split is not None:
            out().print(draw_split(found.split))


def _show_knee(config: Path | None, question: Question, to_json: bool) -> None:
    from safelight.cli.doctor import knee as knees

    with reported():
        if question.memory is not None:
            raise RefusedError("--memory: only with --plan")
        with silence(), err().status("Loading…") as status:
            found = knees.measure(
                config, question, lambda timing: status.update(f"{timing.rows} rows: {1e3 * timing.seconds:.1f} ms")
            )
    if to_json:
        out().print_json(data=knees.as_json(found))
    else:
        out().print(knees.draw(found))
        out().print(f"kept in {found.file}")


def run_checks(config: Path | None, load: bool | None) -> Iterator[Check]:
    """All checks in order; without settings there is nothing else to check."""
    from safelight.cli.doctor.engine import check_device, check_lanes, check_libraries, check_models
    from safelight.cli.doctor.places import check_broker, check_home, check_outputs, check_store, check_traces
    from safelight.cli.doctor.providers import check_providers

    try:
        settings = load_settings(config)
    except ConfigError as error:
        yield fail("settings", str(error), "docs/settings.md lists every key")
        return
    yield ok("settings", f"{len(settings.models)} model(s): {', '.join(settings.models)}")
    for place in (check_home, check_store, check_broker, check_outputs, check_lanes):
        yield place(settings)
    yield from check_traces(settings)
    yield from check_providers(settings)
    if all(model.provider is not None for model in settings.models.values()):
        return
    libraries = check_libraries()
    yield libraries
    if libraries.status is Status.OK:
        device = check_device(settings.worker.device)
        yield device
        if device.status is Status.OK:
            yield from check_models(settings, load)


def _healthy(checks: list[Check]) -> bool:
    return all(check.status is not Status.FAIL for check in checks)


def _table(checks: list[Check]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for check in checks:
        advice = f"\n[dim]→ {escape(check.advice)}[/]" if check.advice else ""
        table.add_row(f"[{_COLOURS[check.status]}]{check.status}[/]", escape(check.name), escape(check.detail) + advice)
    return table
