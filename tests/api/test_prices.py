"""Prices over HTTP: models tell theirs, a dry run tells a submit's, and a submit reserves just that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from api.views import model_list
from jobstore.outputs import Outputs
from safelight.config import ModelSettings, ParallelSettings, PricingSettings, Settings
from tests.api.site import SETTINGS, Driver, Site
from tests.api.test_jobs import submit
from tests.api.test_problems import assert_problem

PRICINGS = {
    "sized": PricingSettings(per_image="0.01", sizes={"128x128": "0.04"}, per_megapixel_step="1"),
    "timed": PricingSettings(gpu_hour="216", max_per_image="0.05"),
}


@pytest.fixture
def site(database: str, outputs: Outputs) -> Iterator[Site]:
    """An API whose models have prices of all kinds."""
    priced = {
        name: ModelSettings(
            model="/models/x", family="flux", revision="r1", steps=8, sizes=("128x128", "64x64"), pricing=pricing
        )
        for name, pricing in PRICINGS.items()
    }
    priced["cheap"] = ModelSettings(
        model="/models/y",
        family="flux",
        revision="r1",
        steps=8,
        sizes=("128x128",),
        price="0.001",
        fallbacks=("sized",),
    )
    settings = msgspec.structs.replace(SETTINGS, models={**SETTINGS.models, **priced})
    with Site(database, outputs, settings).serve() as site:
        yield site


@pytest.mark.parametrize(
    ("fields", "price"),
    [
        ({"model": "scenes"}, "0.01"),
        ({"model": "scenes", "n": 3, "size": "64x64", "steps": 1}, "0.03"),
        ({"model": "sized"}, "0.171072"),  # 0.04 and 0.016384 megapixels in 8 steps
        ({"model": "sized", "size": "128x128", "steps": 8}, "0.171072"),
        ({"model": "sized", "size": "64x64", "steps": 2, "n": 2}, "0.036384"),
        ({"model": "timed", "n": 4}, "0.2"),
    ],
)
def test_a_dry_run_tells_what_a_submit_reserves(http: httpx.Client, fields: dict[str, Any], price: str) -> None:
    """A default costs what it stands for; the dry run leaves nothing behind."""
    response = http.post("/v1/jobs/price", json={"prompt": "a cat", **fields})
    assert response.status_code == 200, response.text
    told = response.json()
    assert (told["price"], told["held"], told["currency"]) == (price, price, "USD")
    assert http.get("/v1/jobs").json()["data"] == []
    assert submit(http, **fields)["cost"]["reserved"] == price


def test_a_dry_run_refuses_what_a_submit_refuses(http: httpx.Client) -> None:
    """With the field's name."""
    assert_problem(http.post("/v1/jobs/price", json={"prompt": "a cat", "size": "65x64"}), 400, "size")
    assert_problem(http.post("/v1/jobs/price", json={"prompt": "a cat", "sise": "64x64"}), 400, "sise")


def test_device_time_is_charged(http: httpx.Client, worker: Driver) -> None:
    """Half a second at 0.06 a second, less than the most that it may cost."""
    job = submit(http, model="timed")
    assert job["cost"]["reserved"] == "0.05"
    worker.render()
    cost = http.get(f"/v1/jobs/{job['id']}").json()["cost"]
    assert (cost["reserved"], cost["charged"], cost["gpu_seconds"]) == ("0", "0.03", "0.5")


def test_models_tell_their_prices(http: httpx.Client) -> None:
    """With what one of the usual size and steps costs."""
    told = {model["id"]: model["pricing"] for model in http.get("/v1/models").json()["data"]}
    assert [told[name]["usual"] for name in ("scenes", "wide", "sized", "timed")] == [
        "0.01",
        "0.002",
        "0.171072",
        "0.05",
    ]
    assert (told["sized"]["sizes"], told["sized"]["per_megapixel_step"]) == ({"128x128": "0.04"}, "1")
    assert (told["timed"]["gpu_hour"], told["timed"]["max_per_image"], told["timed"]["currency"]) == (
        "216",
        "0.05",
        "USD",
    )


def test_models_tell_what_is_lossy() -> None:
    """In how many stages, beside the price; null where several devices, or one, render the same."""
    parallel = {"lossy": ParallelSettings(kind="async", devices=2), "exact": ParallelSettings(kind="tensor", devices=2)}
    models = {name: ModelSettings(model="a/flux", family="flux", parallel=plan) for name, plan in parallel.items()}
    settings = Settings(models={**models, "plain": ModelSettings(model="a/flux")})
    told = {model.id: model.lossy for model in model_list(settings).data}
    assert told == {"lossy": "async-2 warm-up 2 stride 1", "exact": None, "plain": None}


@pytest.mark.parametrize(
    ("fields", "price"),
    [
        ({}, "0.171072"),
        ({"size": "auto", "quality": "auto"}, "0.171072"),
        ({"size": "auto", "quality": "hd", "n": 2}, "0.604288"),  # twice the steps
        ({"size": "64x64", "quality": "low"}, "0.026384"),  # half of them
    ],
)
def test_sizes_and_qualities_cost_what_they_stand_for(http: httpx.Client, fields: dict[str, Any], price: str) -> None:
    """On OpenAI's endpoint too, ``auto`` included."""
    asked = {"prompt": "a cat", "model": "sized", **fields}
    response = http.post("/v1/async/images/generations", json=asked)
    assert response.status_code == 202, response.text
    assert http.get(f"/v1/jobs/{response.json()['id']}").json()["cost"]["reserved"] == price
    assert http.post("/v1/jobs/price", json=asked).json()["price"] == price


def test_budgets_hold_the_dearest_way(http: httpx.Client) -> None:
    """A job may have to go on with another model."""
    told = http.post("/v1/jobs/price", json={"prompt": "a cat", "model": "cheap"}).json()
    assert (told["price"], told["held"]) == ("0.001", "0.171072")
