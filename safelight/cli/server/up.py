"""``safelight up``: everything on one machine, in one process."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from safelight.cli.consoles import err
from safelight.cli.exits import CommandError, ExitCode, StartError, complain, reported
from safelight.cli.options import ConfigOption, HostOption, PortOption, settings_for

if TYPE_CHECKING:
    from safelight.cli.server.site import Site
    from safelight.cli.server.stopping import StopSignal
    from safelight.config import Settings

_HEALTH_EVERY_S = 2.0


def up(
    host: HostOption = None,
    port: PortOption = None,
    prompt: Annotated[
        str | None, typer.Option(help="Render a first picture of this, through the API.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Where that picture goes.", show_default="first-picture.png in the data folder"
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop after the first picture; needs --prompt.")] = False,
    config: ConfigOption = None,
) -> None:
    """Start everything on this machine: embedded PostgreSQL, the API, the playground and a worker."""
    if once and not prompt:
        raise typer.BadParameter("there is no first picture without --prompt", param_hint="--once")
    with reported():
        run(settings_for(config, host, port), prompt, out, once)


def run(settings: Settings, prompt: str | None, out: Path | None, once: bool) -> None:
    """Serve until a signal comes, or until the first picture is there. Raises CommandError, ConfigError."""
    from safelight.cli.server.logs import configure_for
    from safelight.cli.server.site import Site
    from safelight.cli.server.stopping import Interrupted, StopSignal
    from safelight.telemetry.traces import start_tracing

    configure_for(settings.log, quiet_at_terminal=True)
    stop = StopSignal()
    with ExitStack() as stack:
        stack.callback(lambda: err().print("[dim]Stopped.[/]"))
        stack.callback(start_tracing(settings.telemetry, "safelight"))
        site = Site(settings, stop, stack)
        try:
            _serve(site, settings, stop, prompt, out or Path(settings.home) / "first-picture.png", once)
        except Interrupted:
            raise typer.Exit(ExitCode.INTERRUPTED if prompt else ExitCode.OK) from None
        finally:
            err().print("[dim]Stopping…[/]")


def _serve(site: Site, settings: Settings, stop: StopSignal, prompt: str | None, out: Path, once: bool) -> None:
    from safelight.cli.server.first_picture import FirstPicture
    from safelight.cli.server.http import address_of
    from safelight.cli.server.stopping import Interrupted

    url = address_of(site.start(), settings.server)
    err().print(f"Playground [bold]{url}/[/] · API {url}/docs · data {settings.home}", soft_wrap=True)
    if prompt:
        picture = FirstPicture(url, site.secret, prompt, out, stop.wake, settings.server.tls_cert)
        picture.start()
        if _wait(site, stop) == "signal":
            raise Interrupted
        try:
            picture.tell()
        except CommandError as error:
            if once:
                raise
            complain(str(error), error.hint)
        if once:
            return
    err().print("[dim]Ctrl-C stops.[/]")
    _wait(site, stop)


def _wait(site: Site, stop: StopSignal) -> str:
    """Why the wait ended. Raises StartError when the engine is beyond hope."""
    while (reason := stop.wait(_HEALTH_EVERY_S)) is None:
        if site.worker is not None and not site.worker.healthy:
            raise StartError("the engine died or hangs; the log says why")
    return reason
