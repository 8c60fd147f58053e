"""One shape for every error, the field that is to blame, and nothing written."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest
import structlog
from litestar.types import HTTPDisconnectEvent, HTTPRequestEvent
from prometheus_client import REGISTRY

from api.problems import from_decoding
from api.schemas import SubmitRequest
from tests.api.site import Site

SUBMITS: list[tuple[str, dict[str, Any]]] = [
    *[("size", {"size": size}) for size in ("512512x1024", "0x0", "-512x512", "513x512", "512\u00d7512", "auto", "")],
    *[("size", {"size": s, "model": "wide"}) for s in ("513x512", "\u0665\u0661x512", "4096x512", "512x512\n")],
    *[("seed", {"seed": s}) for s in (2**53, 6687881544318117707, str(2**53), -2, "-2", "x", "\u0663", 1.0, 1.5, True)],
    ("seed", {"seed": 10**30}),
    *[("n", {"n": n}) for n in (0, 11, -1, "2", 1.5, None)],
    *[("steps", {"steps": steps}) for steps in (0, 101, 100_000, "8")],
    *[("guidance", {"guidance": guidance}) for guidance in (-0.1, 100.1, "3")],
    *[("priority", {"priority": priority}) for priority in (-1, 10, "5")],
    *[("prompt", {"prompt": prompt}) for prompt in ("", "  \n", "a\0b", "x" * 2_001, 7, None)],
    ("negative_prompt", {"negative_prompt": "blur"}),
    ("negative_prompt", {"negative_prompt": "a\0", "model": "wide"}),
    ("model", {"model": "nope"}),
    ("model", {"model": ""}),
    ("cache", {"cache": "maybe"}),
    ("format", {"format": "gif"}),
    ("dimensions", {"dimensions": {"Team": "a"}}),
    ("dimensions", {"dimensions": {"team": 1}}),
    ("dimensions", {"dimensions": {f"d{i}": "" for i in range(17)}}),
    ("dimensions", {"dimensions": {"team": "x" * 257}}),
    ("dimensions.team", {"dimensions": {"team": "\0"}}),
    *[("deadline_s", {"deadline_s": deadline}) for deadline in (0, -1, 86_401, "10")],
    *[("start_deadline_s", {"start_deadline_s": deadline}) for deadline in (0, -1, 86_401, "10")],
    *[("start_at", {"start_at": at}) for at in ("2031-01-01T00:00:00", "tomorrow", "9999-01-01T00:00:00Z", 5)],
    *[("webhook", {"webhook": url}) for url in ("http://a.example", "https://127.0.0.1/", "https://[::1]/", "", 5)],
    *[("webhook", {"webhook": u}) for u in ("https://169.254.169.254/", "https://user@host.example/", "x" * 3000)],
    ("webhook", {"webhook": {"url": "https://a.example", "events": ["job.done"]}}),
    ("webhook", {"webhook": {"url": "https://a.example", "events": []}}),
    ("webhook", {"webhook": {"url": "https://a.example", "secret": "short"}}),
    ("webhook", {"webhook": {}}),
    ("sede", {"sede": 1}),
]  # fmt: skip


def assert_problem(response: httpx.Response, status: int, field: str | None = None) -> None:
    """The response is a problem with every member in its place."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert set(problem) - {"field"} == {"type", "title", "status", "detail", "instance", "request_id", "error"}
    assert problem["status"] == status
    assert problem["detail"]
    assert problem["request_id"] == response.headers["x-request-id"]
    assert set(problem["error"]) == {"message", "type", "param", "code"}
    assert problem.get("field") == problem["error"]["param"] == field
    assert response.headers["x-content-type-options"] == "nosniff"


def test_a_refused_submit_names_its_field_and_writes_nothing(site: Site, http: httpx.Client) -> None:
    """Whatever is wrong with a field, the answer names it; no job, no bell."""
    for field, wrong in SUBMITS:
        response = http.post("/v1/jobs", json={"prompt": "x", **wrong})
        assert_problem(response, 404 if field == "model" else 400, field)
    assert_problem(http.post("/v1/jobs", json={}), 400, "prompt")
    assert http.get("/v1/jobs").json()["data"] == []
    assert site.bell.rung == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"prompt": "\\ud800"}',
        b'{"prompt": "\xff\xfe"}',
        b'{"prompt": "x", "seed": NaN}',
        b"[" * 20_000,
        b'{"prompt": "x", "dimensions": ' + b'{"a":' * 5_000,
    ],
)
def test_a_body_that_is_no_request_is_a_400(http: httpx.Client, body: bytes) -> None:
    """Malformed, of another type, not UTF-8, a lone surrogate, nested without end."""
    response = http.post("/v1/jobs", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert_problem(response, 400, response.json().get("field"))
    assert http.get("/v1/jobs").json()["data"] == []


def test_a_body_over_the_limit_is_a_413(http: httpx.Client) -> None:
    """Announced by its length, or sent in chunks without one."""
    body = b'{"prompt": "' + b"x" * 60_000 + b'"}'
    headers = {"content-type": "application/json"}
    assert_problem(http.post("/v1/jobs", content=body, headers=headers), 413)
    chunks = (body[at : at + 1000] for at in range(0, len(body), 1000))
    assert_problem(http.post("/v1/jobs", content=chunks, headers=headers), 413)


def test_header_dimensions_are_held_to_the_same_rules(http: httpx.Client) -> None:
    """Their names and how many there are."""
    for headers in ({"x-bf-dim-": "a"}, {"x-bf-dim-a.b": "c"}, {f"x-bf-dim-{n}": "v" for n in range(17)}):
        assert_problem(http.post("/v1/jobs", json={"prompt": "x"}, headers=headers), 400, "dimensions")


def test_paths_methods_and_parameters_that_are_wrong(http: httpx.Client) -> None:
    """404, 405 and 400 in the same shape as all others."""
    missing = "01890000-0000-7000-8000-000000000000"
    for path in ("/nope", "/v1/nope", "/v1/jobs/nope", "/v1/jobs/%00", f"/v1/jobs/{missing}", "/static/x",
                 "/static/%2e%2e%2fstyle.css", f"/v1/jobs/{missing}/images/0", "/v1/jobs/{x}"):  # fmt: skip
        assert_problem(http.get(path), 404)
    for method, path in (
        ("DELETE", "/v1/jobs"),
        ("PUT", "/livez"),
        ("POST", f"/v1/jobs/{missing}"),
        ("HEAD", "/livez"),
    ):
        response = http.request(method, path)
        assert response.status_code == 405
        if method != "HEAD":
            assert_problem(response, 405)
    queries = {"limit": ("0", "201", "x", "1.5", ""), "state": ("done", "%00", ""), "cursor": ("x", "%00", "é"),
               "model": ("%00", "a b", "")}  # fmt: skip
    for field, values in queries.items():
        for value in values:
            assert_problem(http.get(f"/v1/jobs?{field}={value}"), 400, field)
    job = http.post("/v1/jobs", json={"prompt": "x"}).json()
    for value in ("x", "-1", "1.5", str(2**63), "9" * 400):
        assert_problem(http.get(f"/v1/jobs/{job['id']}/events?last_event_id={value}"), 400, "last_event_id")


def test_an_unexpected_error_tells_nothing_but_an_id(site: Site, http: httpx.Client) -> None:
    """500 without internals; 503 with a hint when the store can't be reached."""

    async def broken(_job_id: object) -> None:
        raise RuntimeError("secret of the house")

    async def unreachable(_job_id: object) -> None:
        raise ConnectionRefusedError("10.0.0.7")

    path = "/v1/jobs/01890000-0000-7000-8000-000000000000"
    original = site.services.store.get
    try:
        setattr(site.services.store, "get", broken)  # noqa: B010 - a method of an instance, replaced for the test
        response = http.get(path)
        assert_problem(response, 500)
        assert "secret" not in response.text
        setattr(site.services.store, "get", unreachable)  # noqa: B010
        response = http.get(path)
        assert_problem(response, 503)
        assert response.headers["retry-after"] == "5"
        assert "10.0.0.7" not in response.text
    finally:
        setattr(site.services.store, "get", original)  # noqa: B010


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v1/jobs", "application/json"),
        ("/v1/images/generations", "application/json"),
        ("/v1/images/edits", "application/json"),
        ("/v1/images/edits", "multipart/form-data; boundary=x"),
    ],
)
def test_a_client_that_leaves_while_it_sends_is_no_failure(
    site: Site, http: httpx.Client, path: str, kind: str
) -> None:
    """The log tells of it in a line without a traceback, and metrics under a status of its own."""
    http.get("/livez").raise_for_status()  # from now on the store is open
    count = {"method": "POST", "route": path, "status": "499"}
    name = "safelight_http_request_seconds_count"
    before = REGISTRY.get_sample_value(name, count) or 0.0
    with structlog.testing.capture_logs() as logs:
        site.call(_leave_while_sending(site, path, kind))
    told = [(line["log_level"], line["action"], "exc_info" in line) for line in logs]
    assert told == [("info", "api.client_left", False), ("info", "api.request", False)]
    assert logs[-1]["status"] == 499
    assert REGISTRY.get_sample_value(name, count) == before + 1


async def _leave_while_sending(site: Site, path: str, kind: str) -> None:
    """Half a body, then nobody."""
    begun: HTTPRequestEvent = {"type": "http.request", "body": b'{"prompt": "a b', "more_body": True}
    left: HTTPDisconnectEvent = {"type": "http.disconnect"}
    events = iter((begun, left))

    async def receive() -> HTTPRequestEvent | HTTPDisconnectEvent:
        return next(events)

    async def send(_message: object) -> None:
        """Nobody listens."""

    headers = [(b"content-type", kind.encode()), (b"content-length", b"1000")]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    await site.app(scope, receive, send)  # type: ignore[arg-type]


def test_request_ids_are_taken_when_plain_and_made_when_not(http: httpx.Client) -> None:
    """Echoed in every answer."""
    assert http.get("/livez", headers={"x-request-id": "abc-1.2_3"}).headers["x-request-id"] == "abc-1.2_3"
    for odd in ("a b", "x" * 129, 'a"}', ""):
        made = http.get("/nope", headers={"x-request-id": odd}).headers["x-request-id"]
        assert made != odd
        assert len(made) == 32


def test_no_origin_is_allowed_in(http: httpx.Client) -> None:
    """CORS is off."""
    response = http.get("/v1/models", headers={"Origin": "https://elsewhere.example"})
    assert "access-control-allow-origin" not in response.headers


def test_a_field_name_as_long_as_a_body_is_read_once() -> None:
    """However much it looks like a decoder's own words: it must not hold up the process."""
    name = " - at `$." + "a" * 1_000_000 + "` x"
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.json.decode(msgspec.json.encode({"prompt": "x", name: 1}), type=SubmitRequest)
    assert from_decoding(raised.value, SubmitRequest.__struct_fields__).status_code == 400
