"""``POST /v1/images/generations``: what comes back for what is sent."""

from __future__ import annotations

import base64
import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.api.openai.painter import Painter, until
from tests.api.site import Site

PATH = "/v1/images/generations"


def picture(data: str) -> Image.Image:
    """The picture of strict base64."""
    return Image.open(io.BytesIO(base64.b64decode(data, validate=True)))


def generate(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    """The answer to a request that succeeds."""
    response = client.post(PATH, json={"prompt": "a red circle"} | fields)
    assert response.status_code == 200, response.text
    return dict(response.json())


def test_without_a_response_format_the_picture_comes_in_base64(client: httpx.Client) -> None:
    """In the form that OpenAI's clients read, and with the job behind it."""
    response = client.post(PATH, json={"prompt": "a red circle", "seed": 3, "response_format": None, "n": None})
    assert response.headers["content-type"] == "application/json"
    answer = response.json()
    assert list(answer["data"][0]) == ["b64_json"]
    assert picture(answer["data"][0]["b64_json"]).size == (128, 128)
    assert (answer["output_format"], answer["quality"], answer["size"]) == ("png", "medium", "128x128")
    assert answer["background"] == "opaque"
    assert answer["usage"]["total_tokens"] == 0
    assert answer["safelight"]["seeds"] == [3]
    job = client.get(f"/v1/jobs/{answer['safelight']['job_id']}").json()
    assert (job["state"], job["request"]["steps"]) == ("succeeded", 8)
    assert int(answer["created"]) > 1_700_000_000


def test_several_pictures_come_each_with_a_seed_of_its_own(client: httpx.Client) -> None:
    """As many as were asked for."""
    answer = generate(client, n=4, seed=10)
    assert len(answer["data"]) == 4
    assert answer["safelight"]["seeds"] == [10, 11, 12, 13]


def test_fields_that_nobody_knows_are_ignored_and_ours_count(client: httpx.Client) -> None:
    """The route is forgiving where a submit is not."""
    answer = generate(
        client,
        seed="9007199254740991",
        steps=5,
        guidance=2.5,
        adapters={"ink": 0.5},
        dimensions={"team": "web"},
        priority=7,
        user="somebody",
        style="vivid",
        moderation="low",
        background="auto",
        whatever={"x": 1},
    )
    job = client.get(f"/v1/jobs/{answer['safelight']['job_id']}").json()
    assert job["request"]["seed"] == 9007199254740991
    assert (job["request"]["steps"], job["request"]["guidance"], job["request"]["priority"]) == (5, 2.5, 7)
    assert job["request"]["adapters"] == {"ink": 0.5}
    assert job["dimensions"] == {"team": "web"}


@pytest.mark.parametrize(
    ("quality", "steps"), [("low", 3), ("medium", 8), ("standard", 8), ("auto", 8), ("high", 16), ("hd", 16)]
)
def test_a_quality_decides_the_steps(client: httpx.Client, quality: str, steps: int) -> None:
    """By the model's settings, or a multiple of its usual ones."""
    assert generate(client, quality=quality)["safelight"]["steps"] == steps


def test_steps_go_before_a_quality(client: httpx.Client) -> None:
    """Who says both means the exact one."""
    assert generate(client, quality="high", steps=2)["safelight"]["steps"] == 2


def test_size_auto_is_the_models_own(client: httpx.Client) -> None:
    """And one that it has is taken."""
    assert generate(client, size="auto")["size"] == "128x128"
    assert generate(client, size="64x64")["size"] == "64x64"
    strange = client.post("/v1/images/generations", json={"prompt": "a red circle", "size": "1024x1024"})
    assert strange.json()["detail"].endswith(", or auto")


@pytest.mark.parametrize("output_format", ["png", "jpeg", "webp"])
def test_the_file_format_is_the_one_asked_for(client: httpx.Client, output_format: str) -> None:
    """Told as such."""
    answer = generate(client, output_format=output_format)
    assert answer["output_format"] == output_format
    assert picture(answer["data"][0]["b64_json"]).format == output_format.upper()


@pytest.mark.parametrize("output_format", ["jpeg", "webp"])
def test_compression_makes_files_smaller(client: httpx.Client, output_format: str) -> None:
    """Of one and the same picture, which is rendered once."""
    sizes = []
    for compression in (5, 100):
        answer = generate(client, seed=1, output_format=output_format, output_compression=compression)
        assert picture(answer["data"][0]["b64_json"]).format == output_format.upper()
        sizes.append(len(answer["data"][0]["b64_json"]))
    assert sizes[0] < sizes[1]
    assert answer["safelight"]["cache"] == "hit"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("response_format", "xml", "url or b64_json"),
        ("size", "512x512", "one of"),
        ("size", "0x0", "one of"),
        ("size", "513x513", "one of"),
        ("quality", "best", "one of"),
        ("output_format", "gif", "one of"),
        ("output_compression", 101, "at most 100"),
        ("output_compression", 50, "png loses nothing"),
        ("partial_images", 4, "at most 3"),
        ("n", 0, "at least 1"),
        ("n", 11, "at most 10"),
        ("n", "2", "whole number"),
        ("seed", -2, "seed must be"),
        ("stream", "yes", "true or false"),
        ("prompt", "", "empty"),
        ("prompt", "a\0b", "U+0000"),
    ],
)
def test_what_cannot_be_taken_is_named(client: httpx.Client, field: str, value: object, words: str) -> None:
    """In OpenAI's form, all four members there, before anything is stored."""
    before = client.get("/v1/jobs").json()["data"][:1]
    response = client.post(PATH, json={"prompt": "a red circle", field: value})
    assert response.status_code == 400
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["param"]) == ("invalid_request_error", field)
    assert words in error["message"]
    assert response.headers["x-request-id"]
    assert client.get("/v1/jobs").json()["data"][:1] == before


def test_an_unknown_model_is_said_to_be_not_found(client: httpx.Client) -> None:
    """With the code that OpenAI has for it."""
    error = client.post(PATH, json={"prompt": "x", "model": "gpt-5"})
    assert (error.status_code, error.json()["error"]["code"]) == (404, "model_not_found")
    assert "(shapes, dall-e-3, gpt-image-1)" in error.json()["detail"]
    assert error.json()["error"]["param"] == "model"


@pytest.mark.parametrize("body", [b"", b"[]", b"nonsense", b'"x"', b'{"prompt": "\\ud800"}', b"[" * 40_000])
def test_a_body_that_is_no_request_is_refused(client: httpx.Client, body: bytes) -> None:
    """With words, not with a crash."""
    response = client.post(PATH, content=body, headers={"content-type": "application/json; charset=utf-8"})
    assert response.status_code == 400, response.text
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}


def test_a_failed_render_tells_sdks_not_to_try_again(client: httpx.Client, painter: Painter) -> None:
    """Its own attempts are used up."""
    response = client.post(PATH, json={"prompt": "fail, please"})
    assert response.status_code == 500
    assert response.headers["x-should-retry"] == "false"
    assert response.json()["error"] == {
        "message": "it went wrong", "type": "server_error", "param": None, "code": "bad_output",
    }  # fmt: skip
    assert painter.painted(response.headers["x-safelight-job-id"]) == 1
    filtered = client.post(PATH, json={"prompt": "fail: content_filtered"})
    assert (filtered.status_code, filtered.json()["error"]["code"]) == (400, "content_policy_violation")
    assert filtered.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("code", ["provider_refused", "provider_busy", "provider_unreachable"])
def test_a_providers_failure_is_not_this_servers(client: httpx.Client, code: str) -> None:
    """502, and not to be tried again: the render's own attempts and routes are used up."""
    response = client.post(PATH, json={"prompt": f"fail: {code}"})
    assert (response.status_code, response.json()["error"]["code"]) == (502, code)
    assert response.json()["error"]["type"] == "server_error"
    assert response.headers["x-should-retry"] == "false"


def test_a_repeat_under_its_key_gets_the_same_answer(client: httpx.Client, painter: Painter) -> None:
    """And another body is refused."""
    headers = {"Idempotency-Key": "one-picture"}
    body = {"prompt": "a green star", "cache": "off"}
    first = client.post(PATH, json=body, headers=headers)
    again = client.post(PATH, json=body, headers=headers)
    assert again.json() == first.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert painter.painted(first.json()["safelight"]["job_id"]) == 1
    other = client.post(PATH, json={**body, "response_format": "url"}, headers=headers)
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused")


def test_duplicates_in_flight_share_one_render(client: httpx.Client, painter: Painter) -> None:
    """The second waits for the first one's job: no conflict, and the same answer."""
    headers = {"Idempotency-Key": "at-once"}
    body = {"prompt": "at once", "cache": "off"}
    with painter.resting(), ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(client.post, PATH, json=body, headers=headers) for _ in range(4)]
        until(lambda: client.get("/v1/jobs", params={"limit": 1}).json()["data"][0]["request"]["prompt"] == "at once")
        painter.resume()
        answers = [call.result() for call in calls]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["safelight"]["job_id"] for answer in answers}) == 1
    assert painter.painted(answers[0].json()["safelight"]["job_id"]) == 1


def test_an_sdks_retry_without_a_key_joins_the_first_try(client: httpx.Client, painter: Painter) -> None:
    """By its retry count and the body."""
    body = {"prompt": "a yellow star", "cache": "off"}
    first = client.post(PATH, json=body, headers={"x-stainless-retry-count": "0"})
    again = client.post(PATH, json=body, headers={"x-stainless-retry-count": "1"})
    assert again.json() == first.json()
    anew = client.post(PATH, json=body, headers={"x-stainless-retry-count": "0"})
    assert anew.json()["safelight"]["job_id"] != first.json()["safelight"]["job_id"]


def test_models_are_listed_and_read_by_every_name(client: httpx.Client, studio: Site) -> None:
    """In OpenAI's form."""
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list"
    assert {model["id"] for model in listed["data"]} == set(studio.settings.models)
    read = client.get("/v1/models/gpt-image-1").json()
    assert (read["id"], read["object"]) == ("gpt-image-1", "model")
    assert {"created", "owned_by"} <= set(read)
    assert "gpt-image-1" in read["aliases"]
    missing = client.get("/v1/models/no/such")
    submitted = client.post("/v1/jobs", json={"prompt": "x", "model": "no/such"})
    assert missing.json()["detail"] == submitted.json()["detail"]
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")
