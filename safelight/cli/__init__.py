"""The command ``safelight``. Heavy parts are imported by the commands that need them, so that clients start fast."""

from __future__ import annotations


def main() -> None:
    """Run the command line; exits with the codes of ``safelight.cli.exits``."""
    from safelight.cli.app import app

    app(prog_name="safelight")
