"""The scripts that compose.yaml's one-shots run, run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer
from psycopg import AsyncConnection
from psycopg.rows import tuple_row

from jobstore.outputs import open_outputs
from tests.deploy.files import DEPLOY, REPOSITORY, services


@pytest.fixture
def storage() -> Iterator[str]:
    """An S3 endpoint with nothing in it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = ThreadedMotoServer("127.0.0.1", port, verbose=False)
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.stop()


def run(script: str, *arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """``sh SCRIPT``, with the command ``safelight`` on the PATH."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", str(DEPLOY / "compose" / script), *arguments],
        env={"PATH": path, "OMP_NUM_THREADS": "1", **environment},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


async def test_the_bucket_is_made_once(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variables that compose.yaml gives; then pictures can be kept. Made again it is the same."""
    environment = {**services()["bucket"]["environment"], "S3_ENDPOINT": storage}
    environment.update(AWS_ACCESS_KEY_ID="an id", AWS_SECRET_ACCESS_KEY="hidden", BUCKET="safelight")
    for _ in range(2):
        done = run("bucket.sh", environment=environment)
        assert done.returncode == 0, done.stderr
        assert "hidden" not in done.stdout + done.stderr
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    await open_outputs(f"s3://safelight?endpoint={storage}&region=us-east-1").ping()


def test_a_storage_that_refuses_is_told(storage: str) -> None:
    """With its answer, and the start ends there. (Outside us-east-1 the storage wants more than the bucket's name.)"""
    environment = {"BUCKET": "safelight", "S3_ENDPOINT": storage, "AWS_REGION": "eu-west-1"}
    done = run("bucket.sh", environment={**environment, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})
    assert done.returncode == 1
    assert "answered 4" in done.stderr


async def test_the_scrape_key_is_made_once(database: str, tmp_path: Path) -> None:
    """It may look and no more, for its group's eyes; an admin's whose secret is nowhere lets the API start.

    The second start leaves both.
    """
    file = tmp_path / "safelight_metrics_key"
    environment = {"SAFELIGHT_STORE": database, "SAFELIGHT_HOME": str(tmp_path / "home")}
    done = run("scrape-key.sh", str(file), environment=environment)
    assert done.returncode == 0, done.stderr
    secret = file.read_text()
    assert secret.startswith("sl_")
    assert file.stat().st_mode & 0o777 == 0o640
    assert secret.strip() not in done.stdout + done.stderr
    assert run("scrape-key.sh", str(file), environment=environment).returncode == 0
    assert file.read_text() == secret
    assert list(tmp_path.glob("safelight_metrics_key*")) == [file]
    async with await AsyncConnection.connect(database, row_factory=tuple_row) as connection:
        query = "SELECT name, scopes, admin FROM api_key ORDER BY id"
        found = await (await connection.execute(query)).fetchall()
    assert [(name, admin) for name, _, admin in found] == [("first-start", True), ("prometheus", False)]
    assert found[1][1] == ["observe"]
