"""Two Safelights: one renders for the other, and takes its place where its own lane is down or its model broken."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, ImageChops

from tests.e2e.processes import REPOSITORY, Process, Server, free_port, leftovers

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
    folder.mkdir()
    settings = folder / "safelight.toml"
    settings.write_text(text)
    environment = {"SAFELIGHT_HOME": str(folder / "home"), "SAFELIGHT_CONFIG": str(settings)}
    return Process(folder, "up", ["up", "--port", str(port)], environment)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Server, Server]]:
    """One that asks, and one that is asked."""
    with tempfile.TemporaryDirectory(prefix="safelight-test-") as name:
        folder = Path(name)
        broken = folder / "broken"
        broken.mkdir()
        (broken / "model_index.json").write_text('{"_class_name": "NoSuchPipeline"}')
        ports = free_port(), free_port()
        url = f"http://127.0.0.1:{ports[1]}"
        here = begin(folder / "here", HERE.format(url=url, scenes=SCENES, broken=broken), ports[0])
        there = begin(folder / "there", THERE, ports[1])
        try:
            yield Server(here, ports[0]), Server(there, ports[1])
        finally:
            with ThreadPoolExecutor() as threads:
                codes = list(threads.map(Process.stop, (here, there)))
            assert codes == [0, 0]
        assert leftovers(name) == []


def test_a_lane_that_is_down_is_left_for_the_provider(pair: tuple[Server, Server]) -> None:
    """The other Safelight draws the same picture that the model here would have drawn; its price is the route's."""
    here, there = pair
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


def test_a_model_that_is_broken_is_left_too(pair: tuple[Server, Server]) -> None:
    """For the first route, whose lane is down, and from there for the second; a long render is polled."""
    here, there = pair
    job = here.ended(here.submit(model="broken", prompt="a blue star", seed=3, steps=150, size="64x64")["id"])
    assert (job["state"], job["model"], job["cost"]["charged"]) == ("succeeded", "far", "0.05"), job
    assert job["warnings"] == [
        "sent on from broken to near: model_unavailable",
        "sent on from near to far: lane_down",
    ]
    newest = there.http.get("/v1/jobs?limit=1").json()["data"][0]
    assert (newest["request"]["steps"], newest["request"]["seed"]) == (150, 3)


def picture(server: Server, job: dict[str, object]) -> Image.Image:
    """The first picture of a job."""
    response = server.http.get(f"/v1/jobs/{job['id']}/images/0").raise_for_status()
    return Image.open(BytesIO(response.content)).convert("RGB")
