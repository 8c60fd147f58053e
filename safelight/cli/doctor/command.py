"""``safelight doctor``: checks everything that Safelight needs, and says what to do about what fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from safelight.cli.consoles import err, out
from safelight.cli.doctor.check import Check, Status, fail, ok
from safelight.cli.exits import ExitCode
from safelight.cli.options import ConfigOption, JsonOption
from safelight.config import ConfigError, LogSettings, load_settings

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
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Check settings, data folder, store, broker, outputs, device and models. Exits with 1 if anything fails."""
    with _silence(), err().status("Checking…"):
        checks = list(run_checks(config, load))
    if as_json:
        import msgspec

        out().print_json(data={"ok": _healthy(checks), "checks": msgspec.to_builtins(checks)})
    else:
        out().print(_table(checks))
    raise typer.Exit(ExitCode.OK if _healthy(checks) else ExitCode.FAILED)


def run_checks(config: Path | None, load: bool | None) -> Iterator[Check]:
    """All checks in order; without settings there is nothing else to check."""
    from safelight.cli.doctor.engine import check_device, check_lanes, check_libraries, check_models
    from safelight.cli.doctor.places import check_broker, check_home, check_outputs, check_store

    try:
        settings = load_settings(config)
    except ConfigError as error:
        yield fail("settings", str(error), "docs/settings.md lists every key")
        return
    yield ok("settings", f"{len(settings.models)} model(s): {', '.join(settings.models)}")
    for place in (check_home, check_store, check_broker, check_outputs, check_lanes):
        yield place(settings)
    libraries = check_libraries()
    yield libraries
    if libraries.status is Status.OK:
        device = check_device(settings.worker.device)
        yield device
        if device.status is Status.OK:
            yield from check_models(settings, load)


@contextmanager
def _silence() -> Iterator[None]:
    """No logs meanwhile: the table says it all."""
    import logging

    from safelight.telemetry import configure_logging

    configure_logging(LogSettings())
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


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
