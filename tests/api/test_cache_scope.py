"""Who finds whose pictures, and joins whose renders: a hit tells that somebody asked before."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
import pytest

from api.changing import with_inputs
from api.resolve import resolve, with_seed
from api.schemas import SubmitRequest
from jobstore.ids import uuid7
from jobstore.keys import ApiKey
from jobstore.operating.jobs import JobFilter
from jobstore.outputs import Outputs
from tests.api.site import SETTINGS, Driver, Site, with_jobs
from tests.contract.keying import make_key

OWNERS = {"ann": "ads", "abe": "ads", "olga": "ops", "otto": None, "oleg": None}


@pytest.fixture
def scope(request: pytest.FixtureRequest) -> str:
    """The setting."""
    return str(request.param)


@pytest.fixture
def site(database: str, outputs: Outputs, scope: str) -> Iterator[Site]:
    """An API with that setting, and keys of two teams and of none."""
    with Site(database, outputs, with_jobs(SETTINGS, cache_scope=scope)).serve() as site:
        yield site


@pytest.fixture
def headers(site: Site) -> dict[str, dict[str, str]]:
    """What each key sends."""
    found = {}
    for name, team in OWNERS.items():
        secret = site.call(make_key(site.services.store, name, team=team))
        found[name] = {"authorization": f"Bearer {secret}"}
    site.services.keys.forget()
    return found


def outcome(http: httpx.Client, headers: dict[str, str], **fields: Any) -> str:
    """What the cache had for a submit."""
    response = http.post("/v1/jobs", json={"prompt": "a red circle", "seed": 7, **fields}, headers=headers)
    assert response.status_code in (200, 202), response.text
    return str(response.json()["cache"])


SHARED = [
    ("team", {"ann": "miss", "abe": "{}", "olga": "miss", "otto": "miss", "oleg": "miss"}),
    ("key", {"ann": "miss", "abe": "miss", "olga": "miss", "otto": "miss", "oleg": "miss"}),
    ("all", {"ann": "miss", "abe": "{}", "olga": "{}", "otto": "{}", "oleg": "{}"}),
]


@pytest.mark.parametrize(("scope", "expected"), SHARED, indirect=["scope"])
def test_pictures_are_found_within_a_scope_alone(
    site: Site, http: httpx.Client, headers: dict[str, dict[str, str]], worker: Driver, expected: dict[str, str]
) -> None:
    """Renders in flight are joined alike, and an any-seed request finds no more than one with a seed."""
    found = {name: outcome(http, headers[name]) for name in OWNERS}
    assert found == {name: what.format("joined") for name, what in expected.items()}
    for _ in range(list(found.values()).count("miss")):
        worker.render()
    assert {outcome(http, headers[name]) for name in OWNERS} == {"hit"}
    # Ann alone has this one.
    assert outcome(http, headers["ann"], prompt="a star") == "miss"
    worker.render()
    found = {name: outcome(http, headers[name], prompt="a star", seed=None, cache="any") for name in OWNERS}
    assert found == {**{name: what.format("hit") for name, what in expected.items()}, "ann": "hit"}


@pytest.mark.parametrize("scope", ["team"], indirect=True)
def test_a_picture_of_another_seed_is_found_again_under_its_own(
    site: Site, http: httpx.Client, headers: dict[str, dict[str, str]], worker: Driver
) -> None:
    """The job that found it has that seed, and a fingerprint of its own scope."""
    outcome(http, headers["ann"])
    worker.render()
    response = http.post("/v1/jobs", json={"prompt": "a red circle", "cache": "any"}, headers=headers["abe"]).json()
    assert (response["cache"], response["request"]["seed"]) == ("hit", 7)
    first, second = site.call(_fingerprints(site))
    assert first == second


@pytest.mark.parametrize("setting", ["team", "key", "all"])
def test_fallbacks_keep_to_the_scope(setting: str) -> None:
    """So do the changes that are made to a job before it is submitted."""
    scenes = msgspec.structs.replace(SETTINGS.models["scenes"], fallbacks=("wide",))
    settings = with_jobs(SETTINGS, cache_scope=setting)
    wide = msgspec.structs.replace(SETTINGS.models["wide"], min_side=128)
    settings = msgspec.structs.replace(settings, models={"scenes": scenes, "wide": wide})

    def prints(key: ApiKey) -> list[str]:
        new = resolve(SubmitRequest(prompt="a cat", seed=1, size="128x128"), {}, key, settings)
        new = with_inputs(new, settings, image="a" * 64, mask=None, strength=0.5)
        [route] = new.fallbacks
        own = [new.fingerprint, with_seed(new, 1, settings).fingerprint, new.seedless_fingerprint]
        return [*own, route.fingerprint, route.seedless_fingerprint]

    def of(team: str) -> ApiKey:
        made = datetime(2026, 1, 1, tzinfo=UTC)
        return ApiKey(id=uuid7(), name="k", admin=False, hint="", created_at=made, team=team)

    one, mate, other = prints(of("ads")), prints(of("ads")), prints(of("ops"))
    assert one[0] == one[1]
    assert (one == mate) is (setting != "key")
    assert (set(one) & set(other) == set()) is (setting != "all")


async def _fingerprints(site: Site) -> list[str]:
    return [job.fingerprint for job in (await site.services.store.list_jobs(JobFilter())).jobs]
