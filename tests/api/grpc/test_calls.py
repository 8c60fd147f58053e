"""Jobs over gRPC: the same as over REST, seen from both."""

from __future__ import annotations

from typing import Any

import grpc
import httpx
import pytest
from google.protobuf.json_format import ParseDict
from prometheus_client import REGISTRY

from api.grpc.messages import filled, message_class
from tests.api.grpc.client import Caller
from tests.api.site import Driver, Site
from tests.api.test_events import until
from tests.api.test_jobs import submit

INVALID, MISSING = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND


def same(message: Any, job: dict[str, Any]) -> bool:
    """True where a message says what REST's answer does, to the last field."""
    return bool(message == filled("Job", job))


def test_a_job_is_the_same_from_both_sides(calls: Caller, http: httpx.Client) -> None:
    """Submitted by one and read, listed and canceled by the other; nulls are fields that aren't there."""
    made = calls.job(n=2, seed=5, dimensions={"team": "a"}, adapters={"ink": 0.5}, start_deadline_s=60)
    read = http.get(f"/v1/jobs/{made.id}").json()
    assert same(made, read)
    assert (made.state, made.model, made.request.n, made.request.seed) == ("queued", "scenes", 2, 5)
    assert (made.cost.reserved, made.dimensions["team"], dict(made.request.adapters)) == ("0.02", "a", {"ink": 0.5})
    assert not made.HasField("fallback_for") and not made.HasField("error") and not made.HasField("started_at")
    other = submit(http, seed=6)
    assert same(calls.job("Get", id=other["id"]), http.get(f"/v1/jobs/{other['id']}").json())
    for job_id in (made.id, other["id"]):
        assert calls.job("Cancel", id=job_id).state == "canceled"
        assert http.get(f"/v1/jobs/{job_id}").json()["state"] == "canceled"
    assert calls.job("Cancel", id=made.id).state == "canceled"


def test_what_is_not_set_gets_the_model_s_default_and_zero_is_no_default(calls: Caller) -> None:
    """As in REST: presence is kept."""
    usual, zero = calls.job(), calls.job(guidance=0.0, priority=0, seed=0, previews=False)
    assert (usual.request.priority, usual.request.steps, usual.request.format) == (5, 8, "png")
    assert (zero.request.priority, zero.request.seed, zero.request.guidance) == (0, 0, 0.0)
    every = calls.job(previews_every=3)
    assert every.request.previews == 3
    named = calls.job(adapter_names=["ink"])
    assert dict(named.request.adapters) == {"ink": 1.0}
    for job in (usual, zero, every, named):
        calls.job("Cancel", id=job.id)


def test_errors_name_the_field(calls: Caller) -> None:
    """Type, field and status of the problem in the trailing metadata; the detail is the message."""
    cases: list[tuple[dict[str, Any], grpc.StatusCode, str, str]] = [
        ({"prompt": "x", "size": "7x7"}, INVALID, "size", "invalid_request"),
        ({}, INVALID, "prompt", "invalid_request"),
        ({"prompt": "x", "n": 99}, INVALID, "n", "invalid_request"),
        ({"prompt": "x", "model": "none"}, MISSING, "model", "model_not_found"),
        ({"prompt": "x", "guidance": float("nan")}, INVALID, "guidance", "invalid_request"),
        ({"prompt": "x", "previews": True, "previews_every": 2}, INVALID, "previews", "invalid_request"),
        ({"prompt": "x", "adapters": {"ink": 11}}, INVALID, "adapters", "invalid_request"),
        ({"prompt": "x", "start_at": "tomorrow"}, INVALID, "start_at", "invalid_request"),
    ]
    for fields, code, field, kind in cases:
        told = calls.ask("Submit", **fields)
        assert (told.code, told.metadata["problem-field"]) == (code, field), told
        assert told.metadata["problem-type"] == f"urn:safelight:problem:{kind}"
        assert field in told.detail


@pytest.mark.parametrize("job_id", ["01890000-0000-7000-8000-000000000000", "x", "", "../models", "a/../b?c"])
def test_a_job_that_is_not_there(calls: Caller, job_id: str) -> None:
    """Whatever stands in its place."""
    for name in ("Get", "Cancel"):
        told = calls.ask(name, id=job_id)
        assert (told.code, told.metadata["problem-type"]) == (MISSING, "urn:safelight:problem:job_not_found")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        calls.watch(job_id).next()
    assert caught.value.code() is MISSING


def test_a_repeated_submit_gets_the_first_one_s_job(calls: Caller, http: httpx.Client) -> None:
    """By the key in the metadata, from both sides; another request under it is refused."""
    key = {"idempotency-key": "one"}
    first = calls.job(metadata=key, seed=1, steps=3)
    again = calls.ask("Submit", key, prompt="a red circle", seed=1, steps=3)
    assert (again.message.id, again.metadata["idempotency-replayed"]) == (first.id, "true")
    rest = http.post("/v1/jobs", json={"prompt": "a red circle", "seed": 1, "steps": 3}, headers=key)
    assert rest.json()["id"] == first.id
    other = calls.ask("Submit", key, prompt="a blue circle")
    assert other.code is grpc.StatusCode.FAILED_PRECONDITION
    assert other.metadata["problem-type"] == "urn:safelight:problem:idempotency_key_reused"
    calls.job("Cancel", id=first.id)


def test_dimensions_come_in_the_metadata_too(calls: Caller) -> None:
    """As headers do."""
    job = calls.job(metadata={"x-bf-dim-project": "p"}, dimensions={"team": "a"})
    assert dict(job.dimensions) == {"team": "a", "project": "p"}
    calls.job("Cancel", id=job.id)


def test_a_job_is_watched_to_its_end_and_again_from_an_event_on(
    calls: Caller, worker: Driver, http: httpx.Client
) -> None:
    """States with ids, progress without; ``done`` is the job; then the stream ends."""
    job = calls.job(seed=3, steps=8)
    watching = calls.watch(job.id)
    first = watching.next()
    assert (first.event, first.state.state, first.WhichOneof("_id")) == ("state", "queued", "id")
    lease = worker.claim()
    running = watching.next()
    assert (running.state.state, running.state.attempt) == ("running", 1)
    worker.step(lease.job.id, 2)
    step = watching.next()
    assert (step.event, step.progress.step, step.HasField("id")) == ("progress", 2, False)
    worker.preview(lease.job.id, 3)
    assert watching.next().preview.image.startswith("data:image/jpeg;base64,")
    worker.finish(lease)
    (done,) = watching.rest()
    assert done.event == "done" and same(done.done, http.get(f"/v1/jobs/{job.id}").json())
    assert done.done.images[0].url.endswith("/images/0")
    assert [event.id for event in calls.watch(job.id, last_event_id=first.id).rest()] == [running.id, done.id]
    assert calls.watch(job.id, last_event_id=done.id).rest() == []


def test_who_leaves_a_stream_frees_its_place(
    site: Site, calls: Caller, worker: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    """At rest, amid a burst of steps, or by hanging up: at once, and nothing is logged as an error."""
    job = calls.job(seed=11)
    watching = calls.watch(job.id)
    assert watching.next().state.state == "queued"
    assert site.services.tail.listeners == 1
    watching.call.cancel()
    until(lambda: site.services.tail.listeners == 0)
    lease = worker.claim()
    for last in range(3):
        watching = calls.watch(job.id)
        watching.next()
        watching.next()
        for step in range(1, 100):
            worker.step(lease.job.id, step, steps=300, attempt=last)
        watching.call.cancel()
        for step in range(100, 200):
            worker.step(lease.job.id, step, steps=300, attempt=last)
        until(lambda: site.services.tail.listeners == 0)
    other = Caller(site, options=[("grpc.use_local_subchannel_pool", 1)])
    other.watch(job.id).next()
    other.close()
    until(lambda: site.services.tail.listeners == 0)
    worker.finish(lease)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_the_models_are_those_of_rest(calls: Caller, http: httpx.Client) -> None:
    """To the last field."""
    models = calls.job("ListModels")
    assert models == filled("ModelList", http.get("/v1/models").json())
    assert [(model.id, model.default) for model in models.data] == [("scenes", True), ("wide", False)]


def test_a_call_is_counted_and_has_its_id(calls: Caller) -> None:
    """Under its own name, with the status that REST would have; the id is the client's, if it sends one."""
    labels = {"method": "GRPC", "route": "/safelight.v1.Safelight/ListModels", "status": "200"}
    before = REGISTRY.get_sample_value("safelight_http_request_seconds_count", labels) or 0
    assert calls.ask("ListModels", {"x-request-id": "mine"}).metadata["x-request-id"] == "mine"
    assert REGISTRY.get_sample_value("safelight_http_request_seconds_count", labels) == before + 1


def test_a_message_is_bounded(calls: Caller) -> None:
    """By the server's own limit, and by REST's for a body without a picture."""
    assert calls.ask("Submit", prompt="x" * 200_000).code is grpc.StatusCode.RESOURCE_EXHAUSTED
    told = calls.ask("Submit", prompt="x" * 60_000)
    assert (told.code, told.metadata["problem-type"]) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "urn:safelight:problem:body_too_large",
    )


def test_what_is_compressed_is_not_unfolded(site: Site) -> None:
    """A few kilobytes could be gigabytes."""
    caller = Caller(site, options=[("grpc.default_compression_algorithm", grpc.Compression.Gzip.value)])
    assert caller.ask("Submit", prompt="x" * 10_000).code is grpc.StatusCode.UNIMPLEMENTED
    caller.close()


def test_messages_take_json_as_protobuf_writes_it() -> None:
    """So other tools can fill them."""
    message = ParseDict({"prompt": "x", "seed": "9007199254740991"}, message_class("SubmitRequest")())
    assert message.seed == 2**53 - 1  # type: ignore[attr-defined]
