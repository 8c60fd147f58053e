"""``python -m safelight`` is the command."""

from safelight.cli import main

main()
