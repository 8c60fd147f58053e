"""``python -m tests.chaos.process api|worker …`` is the command ``safelight`` with the triggers in it."""

from __future__ import annotations

from safelight.cli import main
from tests.chaos.triggers import install

if __name__ == "__main__":
    install()
    main()
