"""What a browser can be made to do by a page from elsewhere, and what it can't."""

from __future__ import annotations

import httpx
import pytest

from tests.api.site import Site
from tests.api.test_jobs import submit
from tests.api.test_problems import assert_problem
from tests.contract.keying import make_key

BODY = b'{"prompt": "x"}'


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "text/json", "", None])
def test_a_body_that_is_not_declared_as_json_is_a_415(http: httpx.Client, media_type: str | None) -> None:
    """Such a request needs no preflight; left out, too."""
    headers = {} if media_type is None else {"content-type": media_type}
    assert_problem(http.post("/v1/jobs", content=BODY, headers=headers), 415)
    assert http.get("/v1/jobs").json()["data"] == []


@pytest.mark.parametrize("media_type", ["application/json; charset=utf-8", "Application/JSON", "application/x+json"])
def test_json_is_json_with_parameters_too(http: httpx.Client, media_type: str) -> None:
    """In any case."""
    assert http.post("/v1/jobs", content=BODY, headers={"content-type": media_type}).status_code == 202


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "https://evil.example", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_page_of_another_origin_writes_nothing(http: httpx.Client, headers: dict[str, str]) -> None:
    """Neither submit nor cancel; reading is left to the browser, for no CORS header is sent."""
    job = submit(http)
    assert_problem(http.post("/v1/jobs", json={"prompt": "x"}, headers=headers), 403)
    assert_problem(http.post(f"/v1/jobs/{job['id']}/cancel", headers=headers), 403)
    assert http.get(f"/v1/jobs/{job['id']}", headers=headers).json()["state"] == "queued"


def test_the_own_page_writes(site: Site, http: httpx.Client) -> None:
    """As browsers send it, with Fetch Metadata and without."""
    for headers in ({"origin": site.url}, {"origin": site.url, "sec-fetch-site": "same-origin"}):
        assert http.post("/v1/jobs", json={"prompt": "x"}, headers=headers).status_code == 202


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.1", "[x"])
def test_an_open_server_answers_to_no_other_name(site: Site, http: httpx.Client, host: str) -> None:
    """Else a name that is made to lead here would be this site to a browser. Once there are keys, they guard."""
    headers = {"host": host}
    assert_problem(http.get("/v1/jobs", headers=headers), 403)
    assert_problem(http.get("/openapi.json", headers=headers), 401)
    assert http.get("/livez", headers=headers).status_code == 200
    secret = site.call(make_key(site.services.store, "first"))
    site.services.keys.forget()
    assert http.get("/v1/jobs", headers={**headers, "authorization": f"Bearer {secret}"}).status_code == 200


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8080", "app.localhost", "[::1]:8080", "127.8.8.8", "LOCALHOST"]
)
def test_every_name_of_this_machine_counts(http: httpx.Client, host: str) -> None:
    """With a port and without."""
    assert http.get("/v1/models", headers={"host": host}).status_code == 200
