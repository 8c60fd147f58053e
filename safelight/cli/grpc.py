"""``safelight grpc``: what clients of the gRPC server need."""

from __future__ import annotations

import typer

from safelight.cli.consoles import out
from safelight.cli.exits import CommandError, reported

grpc = typer.Typer(help="What clients over gRPC need.", no_args_is_help=True)


@grpc.command()
def proto() -> None:
    """Print the .proto file that clients are generated from."""
    with reported():
        try:
            from api.grpc.describing import file_descriptor
            from api.grpc.text import proto_text
        except ImportError as error:
            raise CommandError(f"a package is missing: {error}", "pip install 'safelight[grpc]'") from error
        out().print(proto_text(file_descriptor()), end="", markup=False, highlight=False, soft_wrap=True)
