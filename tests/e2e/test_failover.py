"""Two Safelights: one renders for the other, and takes its place where its own lane is down or its model broken."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops

from tests.e2e.processes import REPOSITORY, Process, Server, free_port, leftovers, wait_for

SCENES = f"""
model = "{REPOSITORY}/models/scenes-flux"
family = "flux"
dtype = "float32"
steps = 8
guidance = 0.0
sizes = ["128x128", "64x64"]
max_sequence_length = 24
"""
THERE = f"""
[server]
sync_wait_s = 0.5
[worker]
device = "simulated:step_s=0.02"
lease_s = 3.0
sweep_s = 0.2
[jobs]
max_steps = 1000
[models.scenes]
price = "0.01"
{SCENES}
"""
# No worker here serves the lane "gpu"; the second model can't be loaded.
HERE = """
[worker]
max_attempts = 1
sweep_s = 0.2
[jobs]
max_steps = 1000
[models.near]
lane = "gpu"
price = "0.02"
fallbacks = ["far"]
fallback_after_s = 0.5
{scenes}
[models.broken]
model = "{broken}"
price = "0.03"
fallbacks = ["near", "far"]
sizes = ["64x64"]
[models.far]
family = "flux"
steps = 8
guidance = 0.0
sizes = ["128x128", "64x64"]
price = "0.05"
[models.far.provider]
kind = "openai"
base_url = "{url}/v1"
model = "scenes"
extra = true
"""


def begin(folder: Path, text: str, port: int) -> Process:
    """An embedded Safelight with these settings, not waited for."""
    folder.mkdir(exist_ok=True)
    settings = folder / "safelight.toml"
    # A file is there at once, where a PostgreSQL of its own takes seconds.
    settings.write_text(f'store = "sqlite:///{folder}/jobs.db"\n{text}')
    environment = {"SAFELIGHT_HOME": str(folder / "home"), "SAFELIGHT_CONFIG": str(settings)}
    return Process(folder, "up", ["up", "--port", str(port)], environment)


class Pair:
    """One that asks, and one that is asked."""

    def __init__(self, folder: Path) -> None:
        """Start both."""
        broken = folder / "broken"
        broken.mkdir()
        (broken / "model_index.json").write_text('{"_class_name": "NoSuchPipeline"}')
        self._folder = folder
        self._port = free_port()
        port = free_port()
        url = f"http://127.0.0.1:{self._port}"
        self._here = begin(folder / "here", HERE.format(url=url, scenes=SCENES, broken=broken), port)
        self._there = begin(folder / "there", THERE, self._port)
        self.here, self.there = Server(self._here, port), Server(self._there, self._port)

    def kill_there(self) -> None:
        """kill -9 the one that is asked, and start it again."""
        self._there.kill()
        self._there = begin(self._folder / "there", THERE, self._port)
        self.there = Server(self._there, self._port)

    def stop(self) -> list[int]:
        """Both exit codes."""
        with ThreadPoolExecutor() as threads:
            return list(threads.map(Process.stop, (self._here, self._there)))


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """One of them for all tests."""
    with tempfile.TemporaryDirectory(prefix="safelight-test-") as name:
        pair = Pair(Path(name))
        yield pair
        assert pair.stop() == [0, 0]
        assert leftovers(name) == []


def test_a_lane_that_is_down_is_left_for_the_provider(pair: Pair) -> None:
    """The other Safelight draws the same picture that the model here would have drawn; its price is the route's."""
    here, there = pair.here, pair.there
    job = here.ended(here.submit(model="near", prompt="a red circle", seed=7)["id"])
    assert (job["state"], job["model"], job["fallback_for"]) == ("succeeded", "far", "near")
    assert (job["cost"]["charged"], job["cost"]["gpu_seconds"]) == ("0.05", "0")
    assert "sent on from near to far: lane_down" in job["warnings"]
    original = there.ended(there.submit(prompt="a red circle", seed=7)["id"])
    assert original["cache"] == "hit"
    pictures = [picture(server, found) for server, found in ((here, job), (there, original))]
    assert ImageChops.difference(*pictures).getbbox() is None
    assert "lane_down" in here.http.get(f"/v1/jobs/{job['id']}/events").text
    again = here.submit(model="far", prompt="a red circle", seed=7)
    assert (again["state"], again["cache"], again["cost"]["charged"]) == ("succeeded", "hit", "0")


def test_a_model_that_is_broken_is_left_too(pair: Pair) -> None:
    """For the first route, whose lane is down, and from there for the second; a long render is polled."""
    here, there = pair.here, pair.there
    job = here.ended(here.submit(model="broken", prompt="a blue star", seed=3, steps=150, size="64x64")["id"])
    assert (job["state"], job["model"], job["cost"]["charged"]) == ("succeeded", "far", "0.05"), job
    assert job["warnings"] == [
        "sent on from broken to near: model_unavailable",
        "sent on from near to far: lane_down",
    ]
    request = newest(there)["request"]
    assert (request["steps"], request["seed"]) == (150, 3)


def test_a_provider_that_is_killed_goes_on_with_what_it_was_asked_for(pair: Pair) -> None:
    """It renders once, and is paid once; here it was one attempt."""
    asked = {"model": "far", "prompt": "a green ring", "seed": 9, "steps": 120, "size": "64x64"}
    before = promises(pair.there)
    job = pair.here.submit(**asked)
    wait_for("the other to promise pictures", lambda: promises(pair.there) > before)
    pair.kill_there()
    ended = pair.here.ended(job["id"])
    assert (ended["state"], ended["attempts"], ended["cost"]["charged"]) == ("succeeded", 1, "0.05"), ended
    jobs = pair.there.http.get("/v1/jobs").json()["data"]
    assert [job["request"]["prompt"] for job in jobs].count(asked["prompt"]) == 1


def promises(server: Server) -> int:
    """How many answers of 202 its log tells of."""
    return len(re.findall(r'"status": ?202', server.process.log.read_text(errors="replace")))


def newest(server: Server) -> dict[str, Any]:
    """Its newest job."""
    return dict(server.http.get("/v1/jobs?limit=1").json()["data"][0])


def picture(server: Server, job: dict[str, Any]) -> Image.Image:
    """The first picture of a job."""
    response = server.http.get(f"/v1/jobs/{job['id']}/images/0").raise_for_status()
    return Image.open(BytesIO(response.content)).convert("RGB")
