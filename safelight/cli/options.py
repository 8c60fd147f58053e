"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from safelight.config import Settings, load_settings

DEFAULT_URL = "http://127.0.0.1:8080"

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", envvar="SAFELIGHT_CONFIG", help="The settings file.", show_default="./safelight.toml"),
]
HostOption = Annotated[
    str | None, typer.Option(help="Address to listen on.", show_default="[server] host in the settings, 127.0.0.1")
]
PortOption = Annotated[
    int | None,
    typer.Option(envvar="PORT", min=0, max=65535, help="Port; 0 takes a free one.", show_default="[server] port, 8080"),
]
UrlOption = Annotated[str, typer.Option("--url", envvar="SAFELIGHT_URL", help="Where Safelight's API is.")]
KeyOption = Annotated[
    str | None,
    typer.Option("--key", envvar="SAFELIGHT_KEY", help="API key.", show_default=False, show_envvar=True),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, for scripts.")]


def settings_for(config: Path | None, host: str | None = None, port: int | None = None) -> Settings:
    """The settings, with the address that the command line names. Raises ConfigError."""
    import msgspec

    settings = load_settings(config)
    server = msgspec.structs.replace(
        settings.server,
        host=settings.server.host if host is None else host,
        port=settings.server.port if port is None else port,
    )
    return msgspec.structs.replace(settings, server=server)
