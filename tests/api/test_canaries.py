"""Canaries: which jobs they take, at what price, and how operators see and steer them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import uuid4

import httpx
import msgspec
import pytest

from api.canaries import Canaries
from api.changing import with_inputs
from api.resolve import resolve
from api.schemas import SubmitRequest
from jobstore.audit import AuditFilter
from jobstore.canaries import CanaryShare
from jobstore.job import JobError, NewJob, Replay
from jobstore.keys import ApiKey
from jobstore.outputs import Outputs
from jobstore.protocol import Lease
from safelight.config import Settings
from tests.api.site import SETTINGS, Driver, Site
from tests.api.test_problems import assert_problem
from tests.contract.keying import TESTER, make_key

STABLE = SETTINGS.models["scenes"]
NEW = msgspec.structs.replace(
    STABLE, revision="r2", aliases=(), lane="big", price="9", canary_of="scenes", share=0.25, steps=4
)
WITH_CANARY = msgspec.structs.replace(SETTINGS, models={**SETTINGS.models, "new": NEW})


class NoStore:
    """Nobody said anything."""


def canaries(settings: Settings = WITH_CANARY, **said: float) -> Canaries:
    """The canaries of the settings, with what operators said."""
    made = Canaries(NoStore(), settings)  # type: ignore[arg-type]
    made.said = {
        name: CanaryShare(model=name, share=share, changed_at=None, changed_by="ops")  # type: ignore[arg-type]
        for name, share in said.items()
    }
    return made


def resolved(
    found: Canaries,
    key: ApiKey | None = None,
    replay: Replay | None = None,
    settings: Settings = WITH_CANARY,
    **fields: Any,
) -> NewJob:
    """The job of a submit."""
    submit = SubmitRequest(**{"prompt": "a cat", "model": "scenes", **fields})
    return resolve(submit, {}, key, settings, replay, canaries=found)


def replay(key: str) -> Replay:
    """What an Idempotency-Key makes of a submit."""
    return Replay(key=f"key:{key}", body_sha256="d")


def test_a_canary_takes_about_its_share_and_the_same_ones_each_time() -> None:
    """By the idempotency key where there is one; a greater share takes others beside."""
    found, more = canaries(), canaries(new=0.5)
    took = [resolved(found, replay=replay(str(number))).request.model for number in range(1000)]
    assert 200 <= took.count("new") <= 300
    assert [resolved(found, replay=replay(str(number))).request.model for number in range(1000)] == took
    then = [resolved(more, replay=replay(str(number))).request.model for number in range(1000)]
    assert 440 <= then.count("new") <= 560
    assert all(after == "new" for before, after in zip(took, then, strict=True) if before == "new")
    assert {resolved(found).request.model for _ in range(200)} == {"scenes", "new"}


def test_a_rolled_back_canary_takes_none_and_a_promoted_one_all() -> None:
    """Those that name it get it, and no other model's jobs are touched."""
    nothing, everything = canaries(new=0.0), canaries(new=1.0)
    for number in range(50):
        assert resolved(nothing, replay=replay(str(number))).request.model == "scenes"
        assert resolved(everything, replay=replay(str(number))).request.model == "new"
    assert resolved(everything, model="shapes").request.model == "new"  # an alias of the model
    assert resolved(everything, model="wide").request.model == "wide"
    named = resolved(nothing, model="new")
    assert (named.request.model, named.request.canary_for, named.price) == ("new", None, Decimal(9))


def test_a_canarys_job_is_its_own_in_all_but_price() -> None:
    """Its lane, steps, batch key and fingerprint; the price of the model asked for, which is its first fallback."""
    stable, canary = resolved(canaries(new=0.0), seed=7), resolved(canaries(new=1.0), seed=7)
    assert (canary.request.model, canary.request.canary_for, canary.request.fallback_for) == ("new", "scenes", None)
    assert (canary.lane, canary.request.steps) == ("big", 4)
    assert (canary.price, canary.rate, canary.ceiling) == (stable.price, stable.rate, stable.ceiling)
    assert canary.fingerprint != stable.fingerprint
    assert canary.seedless_fingerprint != stable.seedless_fingerprint
    assert canary.batch_key != stable.batch_key
    [route] = canary.fallbacks
    assert (route.request, route.lane, route.fingerprint) == (stable.request, stable.lane, stable.fingerprint)
    begun = with_inputs(canary, WITH_CANARY, image="0" * 64, mask=None, strength=0.5)
    assert (begun.request.model, begun.fallbacks[0].request.image) == ("new", "0" * 64)


def test_the_models_own_steps_don_t_make_pictures_alike() -> None:
    """Revisions alone tell the two apart, however equal their settings are."""
    same = msgspec.structs.replace(WITH_CANARY, models={"scenes": STABLE, "new": msgspec.structs.replace(NEW, steps=8)})
    stable = resolved(canaries(same, new=0.0), seed=7, settings=same)
    canary = resolved(canaries(same, new=1.0), seed=7, settings=same)
    assert canary.fingerprint != stable.fingerprint


def test_what_a_canary_can_t_take_is_the_models() -> None:
    """A size that it has not."""
    narrow = msgspec.structs.replace(NEW, sizes=("64x64",))
    settings = msgspec.structs.replace(WITH_CANARY, models={**WITH_CANARY.models, "new": narrow})
    assert resolved(canaries(settings, new=1.0), size="128x128", settings=settings).request.model == "scenes"
    assert resolved(canaries(settings, new=1.0), size="64x64", settings=settings).request.model == "new"


@pytest.fixture
def site(database: str, outputs: Outputs) -> Iterator[Site]:
    """An API with a canary."""
    with Site(database, outputs, WITH_CANARY).serve() as site:
        yield site


@pytest.fixture
def worker(site: Site) -> Driver:
    """A worker of both lanes."""
    return Driver(site, ("default", "big"))


def fail(site: Site, lease: Lease) -> None:
    """End the attempt, for good."""
    site.call(site.services.store.fail(lease.token, JobError(code="render_failed", message="it broke")))


def submit(http: httpx.Client, **fields: Any) -> dict[str, Any]:
    """A new job."""
    answer = http.post("/v1/jobs", json={"prompt": "a cat", "model": "scenes", "cache": "off", **fields})
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


def test_shares_change_while_the_api_runs(site: Site, http: httpx.Client) -> None:
    """Promote, roll back, set: the next submit goes that way; who did it is in the log."""
    [view] = http.get("/v1/canaries").json()["data"]
    assert (view["name"], view["canary_of"], view["share"], view["configured"]) == ("new", "scenes", 0.25, 0.25)
    assert (view["revision"], view["stable_revision"], view["changed_by"]) == ("r2", "r1", None)
    promoted = http.post("/v1/canaries/new/promote").json()
    assert (promoted["share"], promoted["changed_by"]) == (1.0, "without a key")
    job = submit(http)
    assert (job["model"], job["canary_for"], job["cost"]["reserved"]) == ("new", "scenes", "0.01")
    assert http.post("/v1/canaries/new/rollback").json()["share"] == 0
    assert {submit(http, seed=seed)["model"] for seed in range(5)} == {"scenes"}
    assert http.post("/v1/canaries/new/share", json={"share": 0.5}).json()["share"] == 0.5
    entries = site.call(site.services.store.list_audit(AuditFilter(target="new"))).entries
    assert [entry.action for entry in entries] == ["canary.shared", "canary.rolled_back", "canary.promoted"]
    for path, body, status, code in (
        ("new/share", {"share": 1.5}, 400, None),
        ("new/share", {"share": "1"}, 400, None),
        ("scenes/promote", None, 404, "canary_not_found"),
    ):
        answer = http.post(f"/v1/canaries/{path}", json=body)
        assert answer.status_code == status
        if code:
            assert_problem(answer, status, "name")
            assert answer.json()["error"]["code"] == code


def test_another_process_follows(site: Site, http: httpx.Client) -> None:
    """What was said elsewhere counts once it is read."""
    site.call(site.services.store.share_canary("new", 1.0, "canary.promoted", TESTER))
    site.call(site.services.canaries.refresh())
    assert submit(http)["model"] == "new"


def test_both_are_told_beside_each_other(site: Site, http: httpx.Client, worker: Driver) -> None:
    """Success, times and cost; a job that its canary fails is the model's then, and succeeds at its price."""
    for how, seed in (("rollback", 1), ("promote", 2)):
        http.post(f"/v1/canaries/new/{how}")
        submit(http, seed=seed)
        worker.finish(worker.claim())
    job = submit(http, seed=3)
    lease = worker.claim()
    fail(site, lease)
    moved = http.get(f"/v1/jobs/{job['id']}").json()
    assert (moved["state"], moved["model"], moved["canary_for"]) == ("queued", "scenes", None)
    worker.finish(worker.claim())
    assert http.get(f"/v1/jobs/{job['id']}").json()["cost"]["charged"] == "0.01"
    site.services.glances._made.clear()  # figures are kept for a moment
    hour = http.get("/v1/canaries").json()["data"][0]["hour"]
    assert (hour["canary"]["succeeded"], hour["canary"]["failed"], hour["canary"]["success_rate"]) == (1, 1, 0.5)
    assert (hour["stable"]["succeeded"], hour["stable"]["success_rate"]) == (2, 1.0)
    assert hour["stable"]["cost_per_picture"] == hour["canary"]["cost_per_picture"] == "0.01"
    page = http.get("/admin/lanes").text
    assert "<h2>Canaries</h2>" in page
    assert "50.0 %" in page


def test_a_key_for_the_model_alone_may_retry_what_its_canary_failed(
    site: Site, http: httpx.Client, worker: Driver
) -> None:
    """It asked for the model; the canary itself it may not name, and its share it may not change."""
    site.call(site.services.store.share_canary("new", 1.0, "canary.promoted", TESTER))
    site.call(site.services.canaries.refresh())
    secret = site.call(make_key(site.services.store, "narrow", models=("scenes",)))
    site.call(make_key(site.services.store, "ops", admin=True))
    headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": str(uuid4())}
    answer = http.post("/v1/jobs", json={"prompt": "a cat", "model": "scenes", "cache": "off"}, headers=headers)
    assert (answer.status_code, answer.json()["model"]) == (202, "new")
    again = http.post("/v1/jobs", json={"prompt": "a cat", "model": "scenes", "cache": "off"}, headers=headers)
    assert again.json()["id"] == answer.json()["id"]
    del headers["Idempotency-Key"]
    assert http.post("/v1/jobs", json={"prompt": "a cat", "model": "new"}, headers=headers).status_code in (403, 404)
    assert http.post("/v1/canaries/new/rollback", headers=headers).status_code == 403
    assert http.get("/v1/canaries", headers=headers).status_code == 403
    job_id = answer.json()["id"]
    lease = worker.claim()
    fail(site, lease)
    assert http.get(f"/v1/jobs/{job_id}", headers=headers).json()["model"] == "scenes"
