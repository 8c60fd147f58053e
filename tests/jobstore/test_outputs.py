"""Outputs: a folder, and S3 as moto's server speaks it (S3 itself is an edge that is not ours)."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from moto.server import ThreadedMotoServer

from jobstore.errors import OutputNotFoundError
from jobstore.ids import uuid7
from jobstore.job import PictureFormat
from jobstore.outputs import Outputs, open_outputs, picture_key


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    """An S3 endpoint."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = ThreadedMotoServer("127.0.0.1", port, verbose=False)
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of empty outputs."""
    if request.param == "file":
        return (tmp_path / "out puts").as_uri()
    endpoint = request.getfixturevalue("s3_server")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    bucket = f"bucket-{uuid.uuid4().hex[:8]}"
    httpx.put(f"{endpoint}/{bucket}").raise_for_status()
    return f"s3://{bucket}/a/prefix?endpoint={endpoint}&region=us-east-1"


@pytest.fixture
def outputs(place: str) -> Outputs:
    """The outputs of that place."""
    return open_outputs(place)


async def test_what_was_put_is_got(outputs: Outputs) -> None:
    """Also by another process that opens the same URL; a second put replaces."""
    key = picture_key(uuid7(), 3, 0, PictureFormat.PNG)
    assert not await outputs.exists(key)
    await outputs.put(key, b"one", "image/png")
    await outputs.put(key, b"\x00two", "image/png")
    assert await outputs.exists(key)
    assert await outputs.get(key) == b"\x00two"


async def test_what_is_not_there_is_not_found(outputs: Outputs) -> None:
    """Deleting it is no error."""
    with pytest.raises(OutputNotFoundError):
        await outputs.get("jobs/none")
    await outputs.put("jobs/one", b"x", "image/png")
    await outputs.delete(["jobs/one", "jobs/none"])
    assert not await outputs.exists("jobs/one")


async def test_ping_answers(outputs: Outputs) -> None:
    """Twice, too."""
    await outputs.ping()
    await outputs.ping()


@pytest.mark.parametrize(
    "key", ["", "/etc/passwd", "../x", "a/../b", "a//b", ".hidden", "a\0b", "a" * 200, "ä", "a/" * 9]
)
async def test_a_bad_key_is_refused(tmp_path: Path, key: str) -> None:
    """Nothing is written or read."""
    outputs = open_outputs(tmp_path.as_uri())
    with pytest.raises(ValueError, match="key"):
        await outputs.put(key, b"x", "image/png")
    with pytest.raises(ValueError, match="key"):
        await outputs.get(key)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["file://host/folder", "s3://", "http://x"])
def test_a_url_that_names_no_place_is_refused(url: str) -> None:
    """With an example of what does."""
    with pytest.raises(ValueError, match="file:///folder"):
        open_outputs(url)


async def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    """The folder holds whole files only, under their own names."""
    outputs = open_outputs(tmp_path.as_uri())
    await outputs.put("jobs/x/1/0.png", b"x" * 1_000_000, "image/png")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["0.png"]
