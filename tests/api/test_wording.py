"""What a refused request is told, word for word."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from api.wording import plainly
from tests.api.site import Driver
from tests.api.test_jobs import submit

_SEED = "seed must be a whole number from 0 to 9007199254740991, or -1 for a random one"
_TIME = "start_at must be a time like 2026-01-31T12:00:00Z"
_NAMES = "dimension names are 1 to 64 of a-z, 0-9, _ and -"
_ADAPTERS = "adapters must be names with weights from -10 to 10, or a list of names, 4 at most"
_PREVIEWS = "previews must be true, false, or how many steps lie between two, 0 to 1000"
_VALUES = "dimension values are text of at most 256 characters"

BODIES: list[tuple[dict[str, Any], str]] = [
    ({"cache": "maybe"}, "cache must be one of use, any, refresh, off"),
    ({"cache": 3}, "cache must be one of use, any, refresh, off"),
    ({"format": "gif"}, "format must be one of png, jpeg, webp"),
    ({"prompt": ""}, "prompt must not be empty"),
    ({"prompt": "  "}, "prompt must not be empty"),
    ({"prompt": 7}, "prompt must be text"),
    ({"negative_prompt": 7}, "negative_prompt must be text"),
    ({"n": 11}, "n must be at most 10"),
    ({"n": 0}, "n must be at least 1"),
    ({"n": "2"}, "n must be a whole number"),
    ({"steps": 1.5}, "steps must be a whole number"),
    ({"steps": "8"}, "steps must be a whole number"),
    *(({"steps": steps}, "steps must be at most 100") for steps in (101, 9999, 10**30)),
    ({"guidance": "3"}, "guidance must be a number"),
    ({"guidance": 100.5}, "guidance must be at most 100"),
    ({"deadline_s": 0}, "deadline_s must be more than 0"),
    ({"start_deadline_s": 0}, "start_deadline_s must be more than 0"),
    ({"start_deadline_s": 86_401}, "start_deadline_s must be at most 86400 seconds"),
    ({"seed": "x"}, _SEED),
    ({"seed": 1.5}, _SEED),
    ({"seed": 2**53}, _SEED),
    ({"start_at": "tomorrow"}, _TIME),
    ({"start_at": "2031-01-01T00:00:00"}, _TIME),
    ({"start_at": 5}, _TIME),
    ({"dimensions": {"Team": "a"}}, _NAMES),
    ({"dimensions": {"team": 1}}, _VALUES),
    ({"dimensions": {"team": "x" * 257}}, _VALUES),
    ({"dimensions": []}, "dimensions must be an object"),
    ({"dimensions": {f"d{i}": "" for i in range(17)}}, "dimensions must have at most 16 entries"),
    *(
        ({"adapters": wrong}, _ADAPTERS)
        for wrong in ("ink", 3, ["i k"], [1], {"ink": "1"}, {"ink": 11}, {"ink": None}, {"": 1}, ["ink"] * 5)
    ),
    ({"adapters": ["inc"]}, "the model scenes has no adapter 'inc'; it has: ink, watercolor"),
    ({"adapters": {"ink": 1, "inc": 1}}, "the model scenes has no adapter 'inc'; it has: ink, watercolor"),
    ({"adapters": ["ink"], "model": "wide"}, "the model wide has no adapter 'ink'; it has none"),
    ({"adapters": ["ink", "ink"]}, "adapters names one twice"),
    *(({"previews": wrong}, _PREVIEWS) for wrong in ("yes", -1, 1001, 1.5)),
    ({"promt": "x"}, "there is no field 'promt'; did you mean 'prompt'?"),
    ({"webhook": "x"}, "webhook: this URL is not called: it must be a URL with a host, and without a fragment"),
    ({"webhook": {}}, "webhook must be a URL, or an object with url, events (types of job events) and secret"),
]

QUERIES = [
    ("state=done", "state must be one of scheduled, queued, running, succeeded, failed, canceled, dead"),
    ("limit=0", "limit must be at least 1"),
    ("limit=201", "limit must be at most 200"),
    ("limit=x", "limit must be a whole number"),
    ("cursor=x", "cursor is not one that a page gave"),
    ("cursor=%00", "cursor holds the character U+0000"),
    ("model=a%20b", "model must be the name of a model"),
    ("stat=failed", "there is no query parameter 'stat'; did you mean 'state'?"),
    ("foo=1", "there is no query parameter 'foo'"),
]


STATES = "states must be scheduled, queued or running for a cancel, dead or failed for a redrive; one or more"
FILTERS: list[tuple[dict[str, Any], str]] = [
    ({"states": ["canceled"]}, STATES),
    ({"states": []}, STATES),
    ({"lane": "Big"}, "lane must be the name of a lane"),
    ({"model": "a b"}, "model must be the name of a model"),
    ({"error_code": "Bad"}, "error_code must be one of the codes that a job's error may have"),
    ({"finished_after": "soon"}, "finished_after must be a time like 2026-01-31T12:00:00Z"),
    ({"finished_before": "2031-01-01T00:00:00"}, "finished_before must be a time like 2026-01-31T12:00:00Z"),
    ({"limit": 1001}, "limit must be at most 1000"),
    ({"error": "x"}, "there is no field 'error'; did you mean 'error_code'?"),
]


def test_filters_are_refused_in_plain_words(http: httpx.Client) -> None:
    """As those of a submit; and a body that is missing is said to be."""
    told = [http.post("/v1/jobs/redrive", json=wrong).json()["detail"] for wrong, _ in FILTERS]
    assert told == [detail for _, detail in FILTERS]
    long = http.post("/v1/lanes/default/pause", json={"reason": "x" * 501})
    assert long.json()["detail"] == "reason must have at most 500 characters"
    for path in ("/v1/jobs/redrive", "/v1/lanes/default/pause", "/v1/jobs"):
        assert http.post(path).json()["detail"] == "the body is missing: it must be a JSON object"


def test_bodies_are_refused_in_plain_words(http: httpx.Client) -> None:
    """Each names the field and what is allowed."""
    told = [http.post("/v1/jobs", json={"prompt": "x", **wrong}).json()["detail"] for wrong, _ in BODIES]
    assert told == [detail for _, detail in BODIES]
    assert http.post("/v1/jobs", json={}).json()["detail"] == "prompt is missing"
    assert http.post("/v1/jobs", json=[]).json()["detail"] == "the body must be a JSON object"


def test_queries_are_refused_in_plain_words(http: httpx.Client) -> None:
    """The names that aren't known too."""
    answers = [http.get(f"/v1/jobs?{query}") for query, _ in QUERIES]
    assert [answer.json()["detail"] for answer in answers] == [detail for _, detail in QUERIES]
    assert {answer.status_code for answer in answers} == {400}
    assert answers[-2].json()["field"] == "stat"


@pytest.mark.parametrize("message", ["Something quite new", "Expected `int` <= a lot", ""])
def test_a_message_of_another_form_is_passed_on(message: str) -> None:
    """Better than nothing, should the library change its words."""
    assert plainly("n", message) == f"n: {message}"


def test_a_retry_says_which_jobs_can_be_retried(http: httpx.Client, worker: Driver) -> None:
    """And how this one stands."""
    path = f"/v1/jobs/{submit(http)['id']}"
    told = [http.post(f"{path}/retry").json()["detail"]]
    worker.render()
    told.append(http.post(f"{path}/retry").json()["detail"])
    rule = "only failed or dead jobs can be retried; this one"
    assert told == [f"{rule} is queued", f"{rule} succeeded"]
