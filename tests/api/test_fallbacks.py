"""What a job's routes are: resolved for each model that takes its place, at that one's price."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx
import msgspec
import pytest

from api.changing import with_inputs
from api.openai.requests import as_submit, quality_of
from api.openai.schemas import GenerationRequest
from api.problems import ProblemError
from api.resolve import resolve
from api.schemas import SubmitRequest
from jobstore.ids import uuid7
from jobstore.job import JobError, NewJob
from jobstore.keys import ApiKey
from jobstore.outputs import Outputs
from jobstore.protocol import Worker
from safelight.config import ModelSettings, ProviderSettings, Settings
from tests.api.site import SETTINGS, Driver, Site

PROVIDER = ProviderSettings(kind="openai", base_url="http://127.0.0.1:9/v1", model="gpt-image-1")
MODELS = {
    "scenes": msgspec.structs.replace(
        SETTINGS.models["scenes"], fallbacks=("far", "wide", "scenes2"), fallback_after_s=5.0
    ),
    "scenes2": ModelSettings(model="/models/scenes2", family="sd15", sizes=("64x64",), steps=4, price="0.001"),
    "wide": msgspec.structs.replace(SETTINGS.models["wide"], fallback_after_s=7.0),
    "far": ModelSettings(provider=PROVIDER, sizes=("128x128", "1024x1024"), price="0.04", fallback_after_s=6.0),
}
FALLING = msgspec.structs.replace(SETTINGS, models=MODELS)


def resolved(key: ApiKey | None = None, settings: Settings = FALLING, **fields: Any) -> NewJob:
    """The job of a submit."""
    return resolve(SubmitRequest(prompt="a cat", model="scenes", **fields), {}, key, settings)


def test_each_route_is_a_whole_request() -> None:
    """The same size and seed; steps and guidance as the other model has them; its lane and price."""
    new = resolved(seed=7, n=2)
    ways = {route.request.model: route for route in new.fallbacks}
    assert list(ways) == ["far", "wide", "scenes2"]
    far = ways["far"]
    assert (far.lane, far.price, far.request.seed, far.request.n) == ("remote", Decimal("0.08"), 7, 2)
    assert (far.request.width, far.request.fallback_for) == (128, "scenes")
    assert len({new.fingerprint, *(route.fingerprint for route in new.fallbacks)}) == 4
    assert (ways["scenes2"].request.steps, ways["scenes2"].price) == (4, Decimal("0.002"))
    assert new.ceiling == Decimal("0.08")


def test_a_quality_means_each_models_own_steps() -> None:
    """Those of the model asked for would cost another one's client too much, or give too little."""
    submit = SubmitRequest(prompt="a cat", model="scenes")
    for quality, steps in (("low", (4, 2)), ("medium", (8, 4)), ("high", (16, 8))):
        new = resolve(submit, {}, None, FALLING, quality=quality)
        ways = {route.request.model: route.request.steps for route in new.fallbacks}
        assert (new.request.steps, ways["scenes2"]) == steps
    named = resolve(msgspec.structs.replace(submit, steps=6), {}, None, FALLING, quality="high")
    assert {named.request.steps, *(route.request.steps for route in named.fallbacks)} == {6}


def test_openais_endpoints_fall_back_with_the_other_models_steps() -> None:
    """Whatever quality was asked for; an edit that leaves no step there does not go there."""
    asked = GenerationRequest(prompt="a cat", model="scenes")
    new = resolve(as_submit(asked, FALLING), {}, None, FALLING, quality=quality_of(asked))
    assert {route.request.model: route.request.steps for route in new.fallbacks}["scenes2"] == 4
    begun = with_inputs(new, FALLING, image="0" * 64, mask=None, strength=0.2)
    assert "scenes2" not in [route.request.model for route in begun.fallbacks]


def test_a_size_that_nobody_named_may_be_another_one() -> None:
    """Where the other model has it not; a size that was named is kept, or the route is left out."""
    free = {route.request.model: route.request.width for route in resolved().fallbacks}
    assert free == {"far": 128, "wide": 1024, "scenes2": 64}
    named = resolved(size="128x128")
    assert [route.request.model for route in named.fallbacks] == ["far"]
    assert any("scenes2 can't take the place of scenes: size" in warning for warning in named.warnings)


def test_each_wait_is_that_of_the_lane_that_is_left() -> None:
    """First that of the model asked for, then that of the first that took its place."""
    assert [route.wait_s for route in resolved(size="128x128").fallbacks] == [5.0]
    assert [route.wait_s for route in resolved().fallbacks] == [5.0, 6.0, 7.0]


def test_what_a_model_can_not_take_is_told() -> None:
    """A negative prompt isn't sent to a provider; the warning is in the job."""
    models = MODELS | {"scenes": msgspec.structs.replace(MODELS["scenes"], family="sd15")}
    new = resolved(settings=msgspec.structs.replace(FALLING, models=models), negative_prompt="blurry")
    assert [route.request.model for route in new.fallbacks] == ["wide", "scenes2"]
    assert "far can't take the place of scenes: the model far takes no negative prompt" in new.warnings
    with pytest.raises(ProblemError):
        resolve(SubmitRequest(prompt="a", model="far", negative_prompt="b"), {}, None, FALLING)


def test_a_key_gets_no_model_that_it_may_not_use() -> None:
    """Not by the back door either, and it isn't told of it."""
    may = ("scenes", "scenes2")
    key = ApiKey(id=uuid7(), name="k", admin=False, hint="", created_at=datetime.now(UTC), models=may)
    new = resolved(key)
    assert [route.request.model for route in new.fallbacks] == ["scenes2"]
    assert not any("far" in warning for warning in new.warnings)


@pytest.fixture
def falling(database: str, outputs: Outputs) -> Iterator[Site]:
    """The API with models that take each other's place."""
    with Site(database, outputs, FALLING).serve() as site:
        yield site


def test_a_job_tells_which_model_rendered_it(falling: Site) -> None:
    """``model`` is who renders it now; the request tells who was asked, the events why, the cost what it is now."""
    with httpx.Client(base_url=falling.url, timeout=20) as http:
        offered = {model["id"]: model for model in http.get("/v1/models").raise_for_status().json()["data"]}
        assert offered["far"]["negative_prompt"] is False
        job = http.post("/v1/jobs", json={"prompt": "a cat", "model": "scenes"}).json()
        assert (job["model"], job["fallback_for"], job["cost"]["reserved"]) == ("scenes", None, "0.01")
        driver = Driver(falling)
        lease = driver.claim()
        store = falling.services.store
        falling.call(store.fail(lease.token, JobError(code="out_of_memory", message="no room")))
        job = http.get(f"/v1/jobs/{job['id']}").json()
        assert (job["state"], job["model"], job["fallback_for"]) == ("queued", "far", "scenes")
        assert (job["cost"]["reserved"], job["request"]["model"]) == ("0.04", "far")
        assert "sent on from scenes to far: out_of_memory" in job["warnings"]
        worker = Worker(id=uuid7(), host="h", pid=1, device="provider", lanes=("remote",))
        again = falling.call(store.claim(worker, ("remote",)))
        assert again is not None
        driver.finish(again)
        told = http.get(f"/v1/jobs/{job['id']}/events").text
        assert '"cause":"out_of_memory"' in told.replace(": ", ":")
