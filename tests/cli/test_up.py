"""``safelight up``: the first picture, stopping, and what keeps it from starting."""

from __future__ import annotations

import re
import signal
import socket
import stat
import threading
from pathlib import Path

import httpx
import pytest
from PIL import Image

from safelight.cli.exits import CommandError
from safelight.cli.server.first_picture import FirstPicture
from tests.cli.running import Embedded, run_safelight, write_settings
from tests.e2e.processes import Process, leftovers, wait_for


def test_once_renders_a_first_picture_and_leaves_nothing_running(settings: dict[str, str], place: Path) -> None:
    """The picture's path is all that standard output says; the data folder is its owner's alone."""
    target = place / "made" / "first.png"
    done = run_safelight(
        "up", "--port", "0", "--prompt", "a [red] circle", "--once", "-o", str(target), environment=settings
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(target)]
    assert Image.open(target).size == (128, 128)
    assert "Playground http://127.0.0.1:" in done.stderr
    assert "a [red] circle" in done.stderr
    home = Path(settings["SAFELIGHT_HOME"])
    assert not stat.S_IMODE(home.stat().st_mode) & (stat.S_IRGRP | stat.S_IROTH)
    assert stat.S_IMODE((home / "outputs").stat().st_mode) == 0o700
    assert leftovers(str(place)) == []


def test_a_first_picture_that_fails_is_told(embedded: Embedded, place: Path) -> None:
    """The API's own words are shown; whatever the reason was, the exit code is 1."""
    done = threading.Event()
    picture = FirstPicture(embedded.server.url, "", "", place / "first.png", lambda _reason: done.set())
    picture.start()
    assert done.wait(60)
    with pytest.raises(CommandError, match=r"no first picture: .*prompt") as failure:
        picture.tell()
    assert failure.value.code == 1
    assert not (place / "first.png").exists()


def test_the_first_picture_needs_no_key_of_the_store(place: Path) -> None:
    """Once there are keys everybody else needs one, `up` itself does not, and its secret is not told."""
    settings = write_settings(place, device="simulated")
    assert run_safelight("keys", "create", "ops", "--admin", environment=settings).returncode == 0
    process = Process(place, "up", ["up", "--port", "0", "--prompt", "a red circle"], settings)
    try:
        wait_for("the picture", lambda: process.alive() and "first-picture.png" in process.tail(), 120)
        url = address_in(process.tail())
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            assert httpx.get(f"{url}/v1/jobs", headers=headers).status_code == 401
        assert process.stop() == 0
    finally:
        process.kill()


def test_a_server_outlives_a_first_picture_that_fails(place: Path) -> None:
    """The error is printed and the server goes on; with --once it is exit code 1."""
    settings = write_settings(place, "max_prompt_chars = 5\n", "simulated")
    process = Process(place, "up", ["up", "--port", "0", "--prompt", "a red circle"], settings)
    try:
        wait_for("the end of the start", lambda: process.alive() and "Ctrl-C stops" in process.tail(), 120)
        assert "no first picture: prompt" in process.tail()
        assert httpx.get(f"{address_in(process.tail())}/livez").status_code == 200
        assert process.stop() == 0
    finally:
        process.kill()
    done = run_safelight("up", "--port", "0", "--once", "--prompt", "a red circle", environment=settings)
    assert done.returncode == 1, done.stderr
    assert "no first picture: prompt" in done.stderr


def address_in(text: str) -> str:
    """The server's URL, from what `up` prints."""
    found = re.search(r"Playground (http://127\.0\.0\.1:\d+)/", text)
    assert found is not None, text
    return found[1]


def test_sigterm_in_the_middle_of_a_start_stops_what_runs_by_then(settings: dict[str, str], place: Path) -> None:
    """PostgreSQL is up, the worker is not: both are gone afterwards."""
    process = Process(place, "up", ["up", "--port", "0"], settings)
    wait_for("PostgreSQL", lambda: process.alive() and "PostgreSQL runs" in process.tail())
    process.popen.send_signal(signal.SIGTERM)
    assert process.popen.wait(60) == 0, process.tail()
    assert leftovers(str(place)) == []


def test_a_second_signal_stops_hard_and_still_takes_postgresql_along(settings: dict[str, str], place: Path) -> None:
    """Two signals at once while it starts: the exit code says that it was not graceful."""
    process = Process(place, "up", ["up", "--port", "0"], settings)
    wait_for("PostgreSQL", lambda: process.alive() and "PostgreSQL runs" in process.tail())
    process.popen.send_signal(signal.SIGINT)
    process.popen.send_signal(signal.SIGTERM)
    assert process.popen.wait(60) in (0, 130), process.tail()
    assert leftovers(str(place)) == []


def test_a_taken_port_is_told_before_anything_is_started(settings: dict[str, str]) -> None:
    """The message names the address and what to do; no data folder is made."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_safelight("up", environment={**settings, "PORT": str(port)})
    assert done.returncode == 1
    assert f"can't listen on 127.0.0.1:{port}" in done.stderr
    assert "--port" in done.stderr
    assert not Path(settings["SAFELIGHT_HOME"]).exists()


def test_a_folder_that_another_up_owns_is_left_alone(embedded: Embedded) -> None:
    """The second one says so and leaves; the first one goes on."""
    done = run_safelight("up", "--port", "0", environment=embedded.environment)
    assert done.returncode == 1
    assert "another Safelight runs on" in done.stderr
    assert embedded.server.http.get("/readyz").status_code == 200


def test_a_public_address_without_a_key_is_refused(settings: dict[str, str], place: Path) -> None:
    """The message says how to make a key."""
    done = run_safelight("up", "--host", "0.0.0.0", "--port", "0", environment=settings)
    assert done.returncode == 2
    assert "safelight keys create" in done.stderr
    assert leftovers(str(place)) == []
