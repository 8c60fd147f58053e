"""Whose answer it is: another key's jobs are not there, whichever way they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from jobstore.keys import Scope
from jobstore.outputs import Outputs
from jobstore.postgres.store import PostgresStore
from tests.api.openai.conftest import gallery
from tests.api.site import Driver, Site
from tests.contract.keying import TESTER, make_key

PATH = "/v1/images/generations"
LATER = "/v1/async/images/generations"
BODY = {"prompt": "a red circle", "cache": "off"}


@pytest.fixture
async def secrets(store: PostgresStore) -> dict[str, str]:
    """Three keys; one may use a model that begins from no picture alone."""
    keys: dict[str, tuple[str, ...] | None] = {"ann": None, "bob": None, "narrow": ("unknown",)}
    return {name: await make_key(store, name, models=models) for name, models in keys.items()}


@pytest.fixture
def site(database: str, outputs: Outputs, secrets: dict[str, str], tmp_path: Path) -> Iterator[Site]:
    """An API that wants a key."""
    with Site(database, outputs, gallery(tmp_path / "home")).serve() as site:
        yield site


def bearer(secret: str) -> dict[str, str]:
    """The header that OpenAI's clients send."""
    return {"Authorization": f"Bearer {secret}"}


def test_a_job_is_polled_by_its_own_key_alone(http: httpx.Client, secrets: dict[str, str], worker: Driver) -> None:
    """A foreign job is the same 404 as a missing one."""
    ann, bob = bearer(secrets["ann"]), bearer(secrets["bob"])
    job_id = http.post(LATER, json=BODY, headers=ann).json()["id"]
    worker.render()
    missing = "01920000-0000-7000-8000-000000000000"
    foreign = [
        http.get(f"{LATER}/{job_id}", headers=bob),
        http.get(PATH, headers={**bob, "x-bf-async-id": job_id}),
        http.get(f"{LATER}/{missing}", headers=ann),
    ]
    assert {(answer.status_code, str(answer.json()["error"])) for answer in foreign} == {
        (404, str(foreign[0].json()["error"]))
    }
    assert http.get(f"{LATER}/{job_id}", headers=ann).status_code == 200
    assert http.get(PATH, headers={**ann, "x-bf-async-id": job_id}).status_code == 200
    assert http.get(PATH, headers={"x-bf-async-id": job_id}).status_code == 401


def test_a_key_that_may_only_read_polls_by_post_too(
    site: Site, http: httpx.Client, secrets: dict[str, str], worker: Driver
) -> None:
    """Bifrost's clients poll by either; such a key makes no job by it."""
    reader = bearer(site.call(make_key(site.services.store, "reader", scopes=(Scope.READ,))))
    ann = http.post(PATH, json=BODY, headers={**bearer(secrets["ann"]), "x-bf-async": "1"}).json()["id"]
    assert http.post(PATH, json=BODY, headers={**reader, "x-bf-async-id": ann}).status_code == 404
    for headers in (reader, {**reader, "x-bf-async-id": ""}):
        assert http.post(PATH, json=BODY, headers=headers).status_code == 403


def test_a_stream_whose_key_is_revoked_says_so(site: Site, http: httpx.Client, secrets: dict[str, str]) -> None:
    """At the next heartbeat, as an error and the end that clients wait for."""
    object.__setattr__(site.services, "heartbeat_s", 0.05)
    with http.stream("POST", PATH, json={**BODY, "stream": True}, headers=bearer(secrets["ann"])) as response:
        lines = response.iter_lines()
        next(lines)
        (own,) = (key for key in site.call(site.services.store.list_keys()) if key.name == "ann")
        site.call(site.services.store.revoke_key(own.id, TESTER))
        site.services.keys.forget()
        left = [line for line in lines if line and line != ": heartbeat"]
    assert (left[0], left[-1]) == ("event: error", "data: [DONE]")
    assert msgspec.json.decode(left[1].removeprefix("data: "))["error"]["code"] == "invalid_api_key"


def test_a_link_opens_without_a_key(http: httpx.Client, secrets: dict[str, str], worker: Driver) -> None:
    """Made for the key that asked; whoever has it may look."""
    headers = bearer(secrets["ann"])
    submitted = http.post(PATH, json={**BODY, "response_format": "url"}, headers={**headers, "x-bf-async": "true"})
    worker.render()
    answer = http.get(PATH, headers={**headers, "x-bf-async-id": submitted.json()["id"]}).json()
    assert httpx.get(answer["data"][0]["url"]).headers["content-type"] == "image/png"


def test_a_key_sees_and_uses_its_models_alone(http: httpx.Client, secrets: dict[str, str]) -> None:
    """In the list, by name, and in requests."""
    narrow = bearer(secrets["narrow"])
    assert [model["id"] for model in http.get("/v1/models", headers=narrow).json()["data"]] == ["unknown"]
    assert http.get("/v1/models/scenes", headers=narrow).status_code == 404
    for path, fields in ((PATH, {}), ("/v1/images/edits", {"image": "data:image/png;base64,AAAA"})):
        refused = http.post(path, json={**BODY, "model": "scenes", **fields}, headers=narrow)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "model_not_allowed")
