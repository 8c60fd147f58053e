"""``webhook`` on OpenAI's routes: the field of a submit, checked as there."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest

from tests.api.openai.test_edits import file, halves
from tests.api.site import Site

GENERATIONS = "/v1/images/generations"
EDITS = "/v1/images/edits"
URL = "https://hooks.example/done"
SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
PLAIN = {"prompt": "a red circle", "cache": "off"}


def picture() -> str:
    """A data URL."""
    return f"data:image/png;base64,{base64.b64encode(file(halves())).decode()}"


def told(client: httpx.Client, response: httpx.Response) -> Any:
    """The webhook of the job behind an answer."""
    assert response.status_code == 200, response.text
    return client.get(f"/v1/jobs/{response.headers['x-safelight-job-id']}").json()["webhook"]


def test_each_route_takes_it(client: httpx.Client) -> None:
    """As a URL, or with events and a secret; in JSON, in a form, in a stream; no answer shows the secret."""
    ended = ["job.succeeded", "job.failed", "job.canceled", "job.dead"]
    plain = {"url": URL, "events": ended, "signed": False}
    signed = {"url": URL, "secret": SECRET, "events": ["job.started"]}
    answer = client.post(GENERATIONS, json=PLAIN | {"webhook": URL})
    assert (sorted(told(client, answer)["events"]), told(client, answer)["url"]) == (sorted(ended), URL)
    assert "hooks.example" not in answer.text
    answer = client.post(GENERATIONS, json=PLAIN | {"webhook": signed})
    assert told(client, answer) == {"url": URL, "events": ["job.started"], "signed": True}
    answer = client.post(GENERATIONS, json=PLAIN | {"webhook": URL, "stream": True})
    assert told(client, answer)["url"] == URL
    answer = client.post(EDITS, json=PLAIN | {"images": [{"image_url": picture()}], "webhook": signed})
    assert told(client, answer)["signed"] is True
    form = {"prompt": "a star", "cache": "off"}
    for fields in ({"webhook": URL}, {"webhook[url]": URL}):
        answer = client.post(EDITS, files={"image": file(halves())}, data=form | fields)
        assert {**told(client, answer), "events": sorted(told(client, answer)["events"])} == {
            **plain,
            "events": sorted(ended),
        }


@pytest.mark.parametrize(
    "refused",
    [
        "http://hooks.example/",
        "https://127.0.0.1/",
        "https://169.254.169.254/",
        "https://[::ffff:10.0.0.1]/",
        "file:///",
    ],
)
def test_addresses_are_refused_as_in_a_submit(client: httpx.Client, studio: Site, refused: str) -> None:
    """By the field, before anything is written."""
    before = len(client.get("/v1/jobs").json()["data"])
    for path, body in ((GENERATIONS, PLAIN), (EDITS, PLAIN | {"image": picture()})):
        response = client.post(path, json=body | {"webhook": refused})
        assert (response.status_code, response.json()["error"]["param"]) == (400, "webhook"), response.text
    assert len(client.get("/v1/jobs").json()["data"]) == before
