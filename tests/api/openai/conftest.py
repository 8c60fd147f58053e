"""One API with a painter for all tests of a module: they don't disturb each other."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from jobstore.outputs import open_outputs
from safelight.config import ModelSettings, Settings
from safelight.config.settings import QualitySettings
from tests.api.openai.painter import Painter
from tests.api.site import SETTINGS, Site, with_server
from tests.contract.emptying import empty_postgres


def gallery(home: Path) -> Settings:
    """Settings with a model of a name that OpenAI's clients know, and one that begins from no picture."""
    models = {
        **SETTINGS.models,
        "scenes": msgspec.structs.replace(
            SETTINGS.models["scenes"],
            aliases=("shapes", "dall-e-3", "gpt-image-1"),
            quality=QualitySettings(low=3),
            sizes=("128x128", "64x64", "128x64"),
        ),
        "unknown": ModelSettings(model="/models/some", family="auto", revision="r1", min_side=64),
    }
    settings = msgspec.structs.replace(SETTINGS, models=models, home=str(home))
    return with_server(settings, upload_limit_bytes=300_000)


@pytest.fixture(scope="module")
def studio(emptied_database: str) -> Iterator[Site]:
    """The API."""
    empty_postgres(emptied_database)
    with tempfile.TemporaryDirectory(prefix="safelight-test-") as folder:
        home = Path(folder)
        outputs = open_outputs((home / "outputs").as_uri())
        with Site(emptied_database, outputs, gallery(home)).serve() as site:
            site.services.tail._poll_s = 0.02  # dozens of tests wait for a job each
            httpx.get(f"{site.url}/livez", timeout=20).raise_for_status()  # it serves once it has started
            yield site


@pytest.fixture(scope="module")
def painter(studio: Site) -> Iterator[Painter]:
    """Whoever paints what is asked for."""
    with Painter(studio).painting() as painter:
        yield painter


@pytest.fixture
def client(studio: Site, painter: Painter) -> Iterator[httpx.Client]:
    """A client of the API whose jobs are painted."""
    with httpx.Client(base_url=studio.url, timeout=20) as client:
        yield client
