"""Clients of Node.js, installed once a lock file into the user's cache and run from there."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "node"
INSTALL_LIMIT_S = 240.0
RUN_LIMIT_S = 60.0


def installed() -> Path:
    """The folder with the clients' packages, exactly those of the lock file. Skips the test where there is no npm."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("OpenAI's and Vercel's clients for Node.js are NOT tested: there is no node or npm here")
    lock = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "safelight-tests"
    folder = cache / f"node-{lock}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as draft:
            _install(Path(draft), folder)
    return folder


def _install(draft: Path, folder: Path) -> None:
    whole = draft / "whole"
    whole.mkdir()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, whole)
    done = subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        cwd=whole,
        capture_output=True,
        text=True,
        timeout=INSTALL_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with suppress(OSError):  # another process was faster
        whole.rename(folder)


def speak(script: str, *arguments: str) -> str:
    """What a script of this room prints."""
    with tempfile.TemporaryDirectory(prefix="safelight-test-") as place:
        shutil.copy(HERE / script, place)
        Path(place, "node_modules").symlink_to(installed() / "node_modules")
        done = subprocess.run(
            ["node", str(Path(place, script)), *arguments],
            capture_output=True,
            text=True,
            timeout=RUN_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
