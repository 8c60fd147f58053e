"""One machine, one command: what a person who runs ``safelight up`` relies on."""

from __future__ import annotations

import re
import subprocess
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.e2e.processes import REPOSITORY, Process, Server, free_port, leftovers, wait_for

SLOW = {"prompt": "a red circle", "steps": 200, "cache": "off"}
QUICK = {"prompt": "a blue square", "steps": 2, "cache": "off"}


def start(home: Path, name: str = "up", device: str = "auto") -> Server:
    """An embedded Safelight with its data in ``home``."""
    port = free_port()
    settings = home.parent / "safelight.toml"
    settings.write_text(
        f'[worker]\nslots = 1\ndevice = "{device}"\n[jobs]\nmax_steps = 1000\n'
        f'[models.scenes]\nmodel = "{REPOSITORY}/models/scenes-flux"\nfamily = "flux"\ndtype = "float32"\n'
        'steps = 8\nguidance = 0.0\nsizes = ["128x128", "64x64"]\nmax_sequence_length = 24\nprice = "0.01"\n'
    )
    environment = {"SAFELIGHT_HOME": str(home), "SAFELIGHT_CONFIG": str(settings)}
    process = Process(home.parent, name, ["up", "--port", str(port)], environment)
    try:
        return Server(process, port)
    except BaseException:
        process.kill()
        raise


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One embedded Safelight for the tests that don't kill it."""
    with tempfile.TemporaryDirectory(prefix="safelight-test-") as folder:
        server = start(Path(folder, "home"))
        yield server
        assert server.process.stop() == 0
        assert leftovers(folder) == []


def test_the_picture_matches_its_prompt(server: Server) -> None:
    """Red lies left of blue, on white."""
    prompt = "a red circle left of a blue square on a white background"
    job = server.ended(server.submit(prompt=prompt, seed=7)["id"])
    assert job["state"] == "succeeded", job
    response = server.http.get(f"/v1/jobs/{job['id']}/images/0")
    image = Image.open(BytesIO(response.content)).convert("RGB")
    assert image.size == (128, 128)
    assert prompt in Image.open(BytesIO(response.content)).info["parameters"]
    red = [x for x, y in every_pixel(image) if is_red(pixel(image, x, y))]
    blue = [x for x, y in every_pixel(image) if is_blue(pixel(image, x, y))]
    assert len(red) > 100
    assert len(blue) > 100
    assert sum(red) / len(red) + 10 < sum(blue) / len(blue)
    assert min(pixel(image, 2, 2)) > 200


def test_a_part_of_a_picture_is_edited_over_openais_endpoint(server: Server) -> None:
    """Where the mask is transparent the prompt counts, and the rest stays."""
    asked = {"prompt": "a red circle left of a blue square on a white background", "seed": 7, "steps": 16}
    made = server.http.post("/v1/images/generations", json=asked).raise_for_status().json()
    mask = Image.new("RGBA", (128, 128), "black")
    mask.paste((0, 0, 0, 0), (0, 0, 64, 128))
    stream = BytesIO()
    mask.save(stream, "PNG")
    edited = server.http.post(
        "/v1/images/edits",
        files={"image": ("a.png", decoded(made), "image/png"), "mask": ("m.png", stream.getvalue(), "image/png")},
        data={"prompt": "a green star left of a blue square on a white background", "seed": "3", "steps": "16"},
    )
    assert edited.status_code == 200, edited.text
    image = Image.open(BytesIO(decoded(edited.json()))).convert("RGB")
    assert not [place for place in every_pixel(image) if is_red(pixel(image, *place))]
    assert len([place for place in every_pixel(image) if is_green(pixel(image, *place))]) > 100
    assert len([place for place in every_pixel(image) if is_blue(pixel(image, *place))]) > 400


def test_a_repeat_is_answered_from_the_cache_and_another_seed_is_rendered(server: Server) -> None:
    """The same prompt and seed costs nothing; seed, size or steps make another picture."""
    first = server.ended(server.submit(prompt="a green star", seed=11)["id"])
    again = server.http.post("/v1/jobs", json={"prompt": "a green star", "seed": 11})
    assert again.status_code == 200
    hit = again.json()
    assert (hit["state"], hit["cache"], hit["cost"]["charged"]) == ("succeeded", "hit", "0")
    assert images(hit) == images(first)
    for change in ({"seed": 12}, {"seed": 11, "size": "64x64"}, {"seed": 11, "steps": 5}):
        other = server.ended(server.submit(prompt="a green star", **change)["id"])
        assert other["cache"] == "miss"
        assert images(other) != images(first)


def test_an_identical_request_in_flight_joins_and_outlives_the_first(server: Server) -> None:
    """One render serves both; the second goes on when the first is canceled."""
    wanted = {"prompt": "a yellow triangle", "steps": 150, "seed": 5}
    first = server.submit(**wanted)
    second = server.submit(**wanted)
    assert (first["cache"], second["cache"]) == ("miss", "joined")
    assert server.http.post(f"/v1/jobs/{first['id']}/cancel").json()["state"] == "canceled"
    assert server.ended(second["id"])["state"] == "succeeded"
    assert server.job(first["id"])["state"] == "canceled"


def test_a_running_job_stops_at_a_step_boundary_and_a_queued_one_never_starts(server: Server) -> None:
    """Cancel in both places; the worker is free at once for the next."""
    running = server.submit(**{**SLOW, "steps": 1000})
    waiting = server.submit(**SLOW)
    wait_for("the first to run", lambda: server.job(running["id"])["state"] == "running")
    canceled = server.http.post(f"/v1/jobs/{waiting['id']}/cancel").json()
    assert canceled["state"] == "canceled"
    assert canceled["started_at"] is None
    server.http.post(f"/v1/jobs/{running['id']}/cancel").raise_for_status()
    ended = server.ended(running["id"])
    assert ended["state"] == "canceled"
    assert ended["progress"]["step"] < 1000
    assert server.ended(server.submit(**QUICK)["id"])["state"] == "succeeded"
    assert server.job(waiting["id"])["started_at"] is None


def test_the_readmes_curl_commands_work_as_they_stand(server: Server, tmp_path: Path) -> None:
    """The section is cut out of the README and run; the stream counts steps up; the picture is a picture.

    Another job keeps the worker busy for the moment, or a slow machine would ask for the stream after the last step.
    """
    busy = server.submit(**SLOW)
    wait_for("the other to run", lambda: server.job(busy["id"])["state"] == "running")
    section = (REPOSITORY / "README.md").read_text().split("## With curl alone")[1].split("\n## ")[0]
    script = "\n".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL)).replace("http://127.0.0.1:8080", server.url)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    steps = [int(step) for step in re.findall(r'event: progress.*?"step": ?(\d+)', done.stdout, re.DOTALL)]
    assert steps
    assert steps == sorted(steps)
    assert "event: done" in done.stdout
    assert Image.open(tmp_path / "picture.png").size == (128, 128)


def test_twenty_queued_and_one_running_survive_kill_9(place: Path) -> None:
    """Everything is killed with -9 and started again: each job finishes, each once, in order.

    On a simulated device: what goes on are the jobs, and a start that loads no torch is a short one.
    """
    home = place / "home"
    server = start(home, "before", "simulated:step_s=0.03")
    running = server.submit(**SLOW)
    wait_for("the first to run", lambda: server.job(running["id"])["state"] == "running")
    queued = [server.submit(**QUICK) for _ in range(20)]
    assert server.job(running["id"])["state"] == "running"
    server.process.kill()

    server = start(home, "after", "simulated")
    try:
        jobs = [server.ended(job["id"]) for job in (running, *queued)]
        assert [job["state"] for job in jobs] == ["succeeded"] * 21
        assert [job["cost"]["charged"] for job in jobs] == ["0.01"] * 21
        starts = [str(job["started_at"]) for job in jobs[1:]]
        assert starts == sorted(starts)
        for job in jobs:
            events = server.http.get(f"/v1/jobs/{job['id']}/events").text
            assert events.count("event: done") == 1
    finally:
        code = server.process.stop()
    assert code == 0
    assert leftovers(str(place)) == []


def decoded(answer: dict[str, Any]) -> bytes:
    """The file of an answer's picture."""
    return b64decode(answer["data"][0]["b64_json"], validate=True)


def images(job: dict[str, Any]) -> list[str]:
    """The digests of a job's pictures."""
    return [image["sha256"] for image in job["images"]]


def every_pixel(image: Image.Image) -> Iterator[tuple[int, int]]:
    """All places of an image."""
    return ((x, y) for x in range(image.width) for y in range(image.height))


def pixel(image: Image.Image, x: int, y: int) -> tuple[int, int, int]:
    """The RGB value there."""
    value = image.getpixel((x, y))
    assert isinstance(value, tuple)
    return value[0], value[1], value[2]


def is_red(rgb: tuple[int, int, int]) -> bool:
    """Red enough for a person."""
    return rgb[0] > 150 and rgb[1] < 110 and rgb[2] < 110


def is_green(rgb: tuple[int, int, int]) -> bool:
    """Green enough for a person."""
    return rgb[1] > 110 and rgb[0] < 110 and rgb[2] < 110


def is_blue(rgb: tuple[int, int, int]) -> bool:
    """Blue enough for a person."""
    return rgb[2] > 130 and rgb[0] < 120 and rgb[1] < 140
