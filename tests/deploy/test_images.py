"""The Dockerfiles: linted, built from files that are there, run as nobody in particular."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.deploy.files import DEPLOY, DOCKERFILES, REPOSITORY, tool

BY_NAME = {file.name: file.read_text() for file in DOCKERFILES}
PROBE = DEPLOY / "docker" / "probe.py"


def test_hadolint_finds_nothing() -> None:
    """Not a hint. It looks into the shell lines with ShellCheck too."""
    hadolint = tool("hadolint")
    assert hadolint is not None
    done = subprocess.run([hadolint, *map(str, DOCKERFILES)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
    assert len(DOCKERFILES) == 2


@pytest.mark.parametrize("name", BY_NAME)
def test_what_is_copied_is_there(name: str) -> None:
    """In the repository, and let through by .dockerignore, which keeps everything else out."""
    ignore = (REPOSITORY / ".dockerignore").read_text().splitlines()
    assert "*" in ignore
    let_through = {line[1:] for line in ignore if line.startswith("!")}
    for line in re.findall(r"^COPY (?!--from)(.+)$", BY_NAME[name], re.M):
        for source in line.split()[:-1]:
            assert (REPOSITORY / source).exists(), source
            assert source in let_through, source


def test_nothing_secret_is_let_through() -> None:
    """Neither passwords nor data, and nothing that git ignores."""
    let_through = {line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    assert not let_through & {".", ".env", ".git", ".safelight", "tests", "deploy"}


@pytest.mark.parametrize("name", BY_NAME)
def test_an_image_runs_as_a_numbered_user(name: str) -> None:
    """So that Kubernetes can tell that it isn't root; signals reach Safelight; the base is a release."""
    text = BY_NAME[name]
    for base in re.findall(r"^FROM (\S+)", text, re.M):
        assert base in {"source", "base"} or re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base)
    for last in [text] if name == "api.Dockerfile" else text.split("FROM base AS ")[1:]:
        assert last.count("USER 10001:10001") == 1
    assert 'ENTRYPOINT ["safelight"]' in text
    assert "HEALTHCHECK" in text
    assert all("--constraint constraints.txt" in line for line in re.findall(r"bin/pip install.*", text))


def test_the_api_has_no_torch() -> None:
    """It is installed without the extras that bring it."""
    assert "'.[grpc,otel]'" in BY_NAME["api.Dockerfile"]
    assert "worker" not in re.findall(r"pip install.*", BY_NAME["api.Dockerfile"])[0]


def test_a_gpu_worker_can_compile() -> None:
    """Triton calls a C compiler on the machine where the blocks are compiled."""
    assert "gcc" in BY_NAME["worker.Dockerfile"].split("FROM base AS gpu")[1]


@contextmanager
def answering() -> Iterator[str]:
    """The URL of a server that answers each path with the status that it names."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(int(self.path.strip("/")))
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_probe_tells_a_200_from_anything_else() -> None:
    """By its exit status; from nobody listening, too."""

    def probe(url: str) -> int:
        return subprocess.run([sys.executable, str(PROBE), url], capture_output=True, check=False).returncode

    with answering() as url:
        assert probe(f"{url}/200") == 0
        assert probe(f"{url}/503") == 1
    assert probe(f"{url}/200") == 1
