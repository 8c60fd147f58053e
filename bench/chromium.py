"""Which browser looks at the pages, in benches and in tests."""

from __future__ import annotations

import os
import shutil

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    """The path of the Chromium that ``SAFELIGHT_CHROMIUM`` names, or of the lightest installed; None where none is."""
    names = (os.environ.get("SAFELIGHT_CHROMIUM", ""), *_NAMES)
    return next((found for found in map(shutil.which, names) if found), None)
